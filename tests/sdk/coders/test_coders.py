"""Coders: what goes in comes out, in Beam's formats."""

import builtins
import math
from typing import Any, NamedTuple, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sdk import coders
from penstock.sdk.coders import (
    AvroGenericCoder,
    AvroRecord,
    Base64PickleCoder,
    BooleanCoder,
    BytesCoder,
    CloudpickleCoder,
    Coder,
    CoderRegistry,
    FastPrimitivesCoder,
    FloatCoder,
    GlobalWindowCoder,
    IntervalWindowCoder,
    IterableCoder,
    LengthPrefixCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    PaneInfoCoder,
    PickleCoder,
    RowCoder,
    ShardedKey,
    ShardedKeyCoder,
    SingletonCoder,
    StrUtf8Coder,
    TimestampCoder,
    ToBytesCoder,
    TupleCoder,
    VarIntCoder,
    WindowedValueCoder,
)
from penstock.sdk.elements.element_wrappers import WindowedValue
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import InvalidKeyError, MissingExtraError, PipelineError, SerializationError
from penstock.triggers.pane import PaneInfo, PaneInfoTiming
from penstock.windowing import GLOBAL_WINDOW, GlobalWindow, IntervalWindow, Timestamp

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
MICROS = st.integers(Timestamp.of(0).micros, 10**16)
TEXT = st.text()

panes = st.builds(
    PaneInfo, st.booleans(), st.booleans(), st.sampled_from(PaneInfoTiming), st.integers(0, 999), st.integers(-1, 999)
)
windows = st.builds(
    lambda start, length: IntervalWindow.of_micros(start, start + length), MICROS, st.integers(0, 10**12)
)
windowed_values = st.builds(
    lambda value, micros, windows, pane: WindowedValue(value, Timestamp.of_micros(micros), windows, pane),
    TEXT,
    MICROS,
    st.lists(windows, max_size=3),
    panes,
)

CASES: list[tuple[Coder, st.SearchStrategy[Any]]] = [
    (StrUtf8Coder(), TEXT),
    (BytesCoder(), st.binary()),
    (BooleanCoder(), st.booleans()),
    (VarIntCoder(), INT64),
    (FloatCoder(), st.floats(allow_nan=False)),
    (SingletonCoder("x"), st.just("x")),
    (NullableCoder(StrUtf8Coder()), st.none() | TEXT),
    (TupleCoder([StrUtf8Coder(), VarIntCoder(), BytesCoder()]), st.tuples(TEXT, INT64, st.binary())),
    (TupleCoder([]), st.just(())),
    (IterableCoder(StrUtf8Coder()), st.lists(TEXT)),
    (ListCoder(NullableCoder(FloatCoder())), st.lists(st.none() | st.floats(allow_nan=False))),
    (MapCoder(StrUtf8Coder(), VarIntCoder()), st.dictionaries(TEXT, INT64)),
    (LengthPrefixCoder(StrUtf8Coder()), TEXT),
    (
        RowCoder(["name", "age"], [StrUtf8Coder(), VarIntCoder()], Row),
        st.builds(lambda name, age: Row(name=name, age=age), TEXT, st.none() | INT64),
    ),
    (PickleCoder(), TEXT),
    (CloudpickleCoder(), TEXT),
    (Base64PickleCoder(), st.binary()),
    (
        FastPrimitivesCoder(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | TEXT | st.binary() | st.floats(allow_nan=False),
            lambda part: st.tuples(part, part) | st.lists(part) | st.dictionaries(TEXT, part) | st.tuples(),
            max_leaves=8,
        ),
    ),
    (TimestampCoder(), MICROS.map(Timestamp.of_micros)),
    (IntervalWindowCoder(), windows),
    (GlobalWindowCoder(), st.just(GLOBAL_WINDOW)),
    (PaneInfoCoder(), panes),
    (WindowedValueCoder(StrUtf8Coder(), IntervalWindowCoder()), windowed_values),
    (WindowedValueCoder(StrUtf8Coder()), windowed_values),
    (ShardedKeyCoder(StrUtf8Coder()), st.builds(ShardedKey, TEXT, st.binary())),
]


@pytest.mark.parametrize(("coder", "values"), CASES, ids=lambda case: repr(case)[:30])
def test_decoding_gives_back_what_was_encoded(coder, values):
    @given(values)
    def round_trip(value):
        encoded = coder.encode(value)
        assert (value, type(value)) == (coder.decode(encoded), type(coder.decode(encoded)))

    round_trip()


@pytest.mark.parametrize(("coder", "values"), CASES, ids=lambda case: repr(case)[:30])
def test_a_nested_value_tells_its_own_end(coder, values):
    @given(values)
    def round_trip(value):
        encoded = coder.encode_nested(value)
        assert (value, 1 + len(encoded)) == coder.read_nested(b"<" + encoded + b">", 1)
        assert value == coder.decode_nested(encoded)

    round_trip()


def test_the_formats_are_beams():
    assert b"\xff" * 9 + b"\x01" == VarIntCoder().encode(-1)
    assert b"\x3f\xe0\x00\x00\x00\x00\x00\x00" == FloatCoder().encode(0.5)
    assert b"\x02ab\x03xyz" == TupleCoder((StrUtf8Coder(), StrUtf8Coder())).encode_nested(("ab", "xyz"))
    assert b"\x02abxyz" == TupleCoder((StrUtf8Coder(), StrUtf8Coder())).encode(("ab", "xyz"))
    assert b"\x02\x01\x02\x01a" == RowCoder("ab", (StrUtf8Coder(), VarIntCoder()), Row).encode(Row(a="a", b=None))


def test_fast_primitives_keep_the_exact_type():
    class Named(tuple):
        pass

    values = [True, 1, 1.0, None, (1, [2]), 1 << 100, -(1 << 63), "\ud800", frozenset({1}), {"a": {1}}]
    coder = FastPrimitivesCoder()
    decoded = [coder.decode(coder.encode(value)) for value in values]
    assert values == decoded
    assert [type(value) for value in values] == [type(value) for value in decoded]


def test_nan_survives():
    assert math.isnan(FloatCoder().decode(FloatCoder().encode(math.nan)))


def test_pickle_takes_a_lambda_too():
    assert 3 == PickleCoder().decode(PickleCoder().encode(lambda n: n + 1))(2)


def test_base64_has_no_line_breaks():
    assert b"\n" not in Base64PickleCoder().encode("x" * 1000)


def test_to_bytes_only_writes():
    assert [b"a", b"b", b"1"] == [ToBytesCoder().encode(value) for value in (b"a", "b", 1)]
    with pytest.raises(NotImplementedError, match="ToBytesCoder only encodes"):
        ToBytesCoder().decode(b"a")


@pytest.mark.parametrize(
    ("coder", "value", "message"),
    [
        (StrUtf8Coder(), 5, "StrUtf8Coder() encodes str, not 5 (an int)"),
        (BytesCoder(), "a", "BytesCoder() encodes bytes, not 'a' (a str)"),
        (BooleanCoder(), 1, "BooleanCoder() encodes bool, not 1 (an int)"),
        (VarIntCoder(), 1 << 63, f"VarIntCoder() encodes int of at most 64 bits, not {1 << 63} (an int)"),
        (VarIntCoder(), "a", "VarIntCoder() encodes int of at most 64 bits, not 'a' (a str)"),
        (FloatCoder(), "a", "FloatCoder() encodes float, not 'a' (a str)"),
        (TupleCoder([BytesCoder()]), (), "TupleCoder((BytesCoder(),)) encodes tuples of 1, not () (a tuple)"),
        (ListCoder(BytesCoder()), 5, "ListCoder(BytesCoder()) encodes iterables, not 5 (an int)"),
        (TimestampCoder(), 5, "TimestampCoder() encodes Timestamp, not 5 (an int)"),
        (PaneInfoCoder(), 5, "PaneInfoCoder() encodes PaneInfo, not 5 (an int)"),
        (IntervalWindowCoder(), (0, 1), "IntervalWindowCoder() encodes IntervalWindow, not (0, 1) (a tuple)"),
    ],
)
def test_a_value_of_another_type_is_named(coder, value, message):
    with pytest.raises(SerializationError) as error:
        coder.encode(value)
    assert message == str(error.value)


@pytest.mark.parametrize(
    ("coder", "encoded", "message"),
    [
        (VarIntCoder(), b"\x80", r"the encoded number in b'\x80' has no end"),
        (VarIntCoder(), b"\x01\x02", r"VarIntCoder() found 1 bytes too many in b'\x01\x02'"),
        (FloatCoder(), b"abc", "expected 8 bytes from byte 0 of b'abc'"),
        (BooleanCoder(), b"\x07", r"BooleanCoder() expected byte 0 or 1, not b'\x07'"),
        (
            FastPrimitivesCoder(),
            b"\x63\x00",
            "FastPrimitivesCoder(PickleCoder()) knows no type 99; the bytes were written by another coder",
        ),
    ],
)
def test_malformed_bytes_are_refused(coder, encoded, message):
    with pytest.raises(SerializationError) as error:
        coder.decode(encoded)
    assert message == str(error.value)


def test_what_cant_be_pickled_is_named():
    with pytest.raises(SerializationError, match=r"<generator.* \(of type generator\) can't be pickled: "):
        CloudpickleCoder().encode(n for n in ())


def test_a_deterministic_map_doesnt_depend_on_insertion():
    coder = MapCoder(StrUtf8Coder(), VarIntCoder())
    assert not coder.is_deterministic()
    deterministic = coder.as_deterministic_coder("Group")
    assert deterministic.is_deterministic()
    assert deterministic.encode({"a": 1, "b": 2}) == deterministic.encode({"b": 2, "a": 1})


def test_a_coder_without_a_deterministic_form_names_the_step():
    with pytest.raises(InvalidKeyError) as error:
        TupleCoder([StrUtf8Coder(), PickleCoder()]).as_deterministic_coder("Group/Inner")
    assert (
        "Group/Inner: PickleCoder() is not deterministic, so it can't encode keys: "
        "use keys of simpler types, or register a deterministic coder for theirs"
    ) == str(error.value)
    with pytest.raises(InvalidKeyError, match="^mine$"):
        PickleCoder().as_deterministic_coder("Group", "mine")


def test_deterministic_primitives_refuse_what_they_would_pickle():
    coder = FastPrimitivesCoder().as_deterministic_coder("Group")
    assert ("a", [1]) == coder.decode(coder.encode(("a", [1])))
    with pytest.raises(InvalidKeyError) as error:
        coder.encode(("a", {1}))
    assert (
        "Group: {1} (a set) has no deterministic encoding: "
        "use values of simpler types, or register a deterministic coder for them"
    ) == str(error.value)


def test_coders_of_equal_parts_are_equal():
    assert TupleCoder([StrUtf8Coder(), VarIntCoder()]) == TupleCoder([StrUtf8Coder(), VarIntCoder()])
    assert TupleCoder([StrUtf8Coder()]) != TupleCoder([VarIntCoder()])
    assert hash(ListCoder(StrUtf8Coder())) == hash(ListCoder(StrUtf8Coder()))


def test_a_pair_coder_tells_its_parts():
    coder = TupleCoder([StrUtf8Coder(), VarIntCoder()])
    assert (True, StrUtf8Coder(), VarIntCoder()) == (coder.is_kv_coder(), coder.key_coder(), coder.value_coder())
    assert tuple[str, int] == coder.to_type_hint()


def test_the_size_is_that_of_the_bytes():
    assert 3 == StrUtf8Coder().estimate_size("abc")


class Player(NamedTuple):
    name: str
    score: int | None


@pytest.mark.parametrize(
    ("hint", "coder"),
    [
        (str, StrUtf8Coder()),
        (bool, BooleanCoder()),
        (tuple[str, int], TupleCoder([StrUtf8Coder(), VarIntCoder()])),
        (tuple[str, ...], FastPrimitivesCoder()),
        (list[float], ListCoder(FloatCoder())),
        (dict[str, bytes], MapCoder(StrUtf8Coder(), BytesCoder())),
        (
            Optional[int],  # noqa: UP045
            NullableCoder(VarIntCoder()),
        ),
        (int | None, NullableCoder(VarIntCoder())),
        (int | str, FastPrimitivesCoder()),
        (Any, FastPrimitivesCoder()),
        (Player, FastPrimitivesCoder()),
        (Timestamp, TimestampCoder()),
        (GlobalWindow, GlobalWindowCoder()),
        ([], FastPrimitivesCoder()),
    ],
)
def test_the_registry_knows_the_coder_for(hint, coder):
    assert coder == CoderRegistry().get_coder(hint)


def test_a_registered_coder_is_used_within_other_types():
    class PlayerCoder(Coder):
        pass

    registry = CoderRegistry()
    registry.register_coder(Player, PlayerCoder)
    assert TupleCoder([PlayerCoder(), VarIntCoder()]) == registry.get_coder(tuple[Player, int])


def test_a_registered_row_is_encoded_by_its_fields():
    registry = CoderRegistry()
    registry.register_row(Player)
    coder = registry.get_coder(Player)
    assert Player("ann", None) == coder.decode(coder.encode(Player("ann", None)))


def test_only_a_coder_class_can_be_registered():
    with pytest.raises(PipelineError) as error:
        CoderRegistry().register_coder(Player, StrUtf8Coder())
    message = "register_coder: StrUtf8Coder() is not a subclass of Coder; pass the class, not an instance"
    assert message == str(error.value)


def test_avro_records_survive():
    pytest.importorskip("fastavro")
    schema = '{"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}]}'
    coder = AvroGenericCoder(schema)
    assert AvroRecord({"a": 3}) == coder.decode(coder.encode(AvroRecord({"a": 3})))


def test_avro_without_fastavro_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "fastavro":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError) as error:
        AvroGenericCoder('"int"').encode(AvroRecord(1))
    assert "AvroGenericCoder needs the package 'fastavro': pip install 'penstock[avro]'" == str(error.value)


def test_the_package_lists_all_that_it_offers():
    assert [] == [name for name in coders.__all__ if not hasattr(coders, name)]


class Halves(coders.FastCoder):
    def _create_impl(self):
        return Half()

    def is_deterministic(self):
        return True


class Half:
    def encode(self, value):
        return b"%d" % (value // 2)

    def decode(self, encoded):
        return int(encoded) * 2


def test_a_fast_coder_encodes_by_its_implementation():
    assert (b"3", 6, b"\x013") == (Halves().encode(6), Halves().decode(b"3"), Halves().encode_nested(6))
    assert Halves() == Halves().as_deterministic_coder("step")
    with pytest.raises(NotImplementedError, match="FastCoder doesn't define _create_impl"):
        coders.FastCoder().encode(1)


def test_a_coder_says_whether_it_is_of_pairs():
    pairs = TupleCoder([VarIntCoder(), BytesCoder()])
    assert (False, True) == (VarIntCoder().is_kv_coder(), pairs.is_kv_coder())
