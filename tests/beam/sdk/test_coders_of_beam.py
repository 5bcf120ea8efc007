"""Coders in Beam's formats that are no default of a type, against bytes that Beam 2.77 has encoded."""

from decimal import Decimal

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.coders.coders import (
    BigEndianShortCoder,
    BigIntegerCoder,
    ByteCoder,
    DecimalCoder,
    DeterministicProtoCoder,
    DillCoder,
    IntervalWindowCoder,
    ParamWindowedValueCoder,
    ProtoCoder,
    SinglePrecisionFloatCoder,
    TimestampPrefixingWindowCoder,
    ToBytesCoder,
    ToStringCoder,
    TupleSequenceCoder,
    VarInt32Coder,
    VarIntCoder,
    WindowedValueCoder,
)
from penstock.sdk.errors import SerializationError
from penstock.transforms.window import IntervalWindow, Timestamp
from penstock.typehints.sharded_key_type import ShardedKeyType
from penstock.utils.sharded_key import ShardedKey
from penstock.utils.windowed_value import WindowedValue


@pytest.mark.parametrize(
    ("coder", "value", "encoded", "nested"),
    [
        (DecimalCoder(), Decimal("-10.25"), b"\x02\xfb\xff", b"\x02\x02\xfb\xff"),
        (DecimalCoder(), Decimal("0"), b"\x00\x00", b"\x00\x01\x00"),
        (DecimalCoder(), Decimal("1E5"), b"\xfb" + 8 * b"\xff" + b"\x01\x01", b"\xfb" + 8 * b"\xff" + b"\x01\x01\x01"),
        (BigIntegerCoder(), 128, b"\x00\x80", b"\x02\x00\x80"),
        (BigIntegerCoder(), -128, b"\x80", b"\x01\x80"),
        (BigIntegerCoder(), -(2**70), b"\xc0" + 8 * b"\x00", b"\t\xc0" + 8 * b"\x00"),
        (SinglePrecisionFloatCoder(), -3.0, b"\xc0@\x00\x00", b"\xc0@\x00\x00"),
        (VarInt32Coder(), -1, b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"),
        (VarInt32Coder(), -(2**31), b"\x80\x80\x80\x80\x08", b"\x80\x80\x80\x80\x08"),
        (BigEndianShortCoder(), -2, b"\xff\xfe", b"\xff\xfe"),
        (ByteCoder(), 200, b"\xc8", b"\xc8"),
        (TupleSequenceCoder(VarIntCoder()), (1, 2), b"\x00\x00\x00\x02\x01\x02", b"\x00\x00\x00\x02\x01\x02"),
    ],
)
def test_a_value_has_beams_bytes(coder, value, encoded, nested):
    impl = coder.get_impl()
    assert (encoded, nested) == (impl.encode(value), impl.encode_nested(value))
    assert (value, value) == (impl.decode(encoded), impl.decode_nested(nested))
    assert type(value) is type(impl.decode(encoded))
    assert coder.is_deterministic()


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40), st.integers())
def test_numbers_of_any_size_keep_all_digits(number, integer):
    """Beam rounds decimals to 28 digits when it decodes them."""
    assert number == DecimalCoder().decode(DecimalCoder().encode(number))
    assert integer == BigIntegerCoder().decode(BigIntegerCoder().encode(integer))


@pytest.mark.parametrize(
    ("coder", "value"),
    [
        (DecimalCoder(), Decimal("nan")),
        (DecimalCoder(), 1.5),
        (BigIntegerCoder(), "1"),
        (SinglePrecisionFloatCoder(), "1"),
        (VarInt32Coder(), 2**31),
        (BigEndianShortCoder(), 2**15),
        (ByteCoder(), 256),
        (ProtoCoder(Struct), "text"),
    ],
)
def test_a_value_of_another_type_or_size_is_refused(coder, value):
    with pytest.raises(SerializationError, match=f"{type(coder).__name__}.* encodes "):
        coder.encode(value)


def test_messages_of_protocol_buffers_have_coders():
    message = Struct(fields={})
    message.update({"b": 1, "a": 2})
    coder = ProtoCoder(Struct)
    deterministic = coder.as_deterministic_coder("step")
    assert message == coder.decode(coder.encode(message)) == deterministic.decode(deterministic.encode(message))
    assert (False, True) == (coder.is_deterministic(), deterministic.is_deterministic())
    assert DeterministicProtoCoder(Struct) == deterministic == DeterministicProtoCoder.from_type_hint(Struct, None)


def test_windowed_values_may_share_their_window():
    value = WindowedValue(7, Timestamp(5), [IntervalWindow(0, 10)])
    payload = WindowedValueCoder(VarIntCoder(), IntervalWindowCoder()).encode(value)
    coder = ParamWindowedValueCoder(payload, [VarIntCoder(), IntervalWindowCoder()])
    assert b"\x07" == coder.encode(value)
    assert value == coder.decode(b"\x07")


def test_windows_of_any_class_may_be_prefixed_by_their_end():
    coder = TimestampPrefixingWindowCoder(IntervalWindowCoder())
    assert IntervalWindow(0, 10) == coder.decode_nested(coder.encode_nested(IntervalWindow(0, 10)))


def test_beams_other_names_of_coders():
    assert ToStringCoder is ToBytesCoder
    assert 3 == DillCoder().decode(DillCoder().encode(lambda: 3))()
    assert VarIntCoder() == beam.coders.registry.verify_deterministic(VarIntCoder(), "step")


def test_sharded_keys_have_a_type_hint():
    hint = ShardedKeyType[str]
    hint.type_check(ShardedKey("a", b"1"))
    with pytest.raises(TypeError, match="the key is 5"):
        hint.type_check(ShardedKey(5, b"1"))
    sharded = beam.Pipeline() | beam.Create(["a"]) | beam.Map(lambda k: ShardedKey(k, b"")).with_output_types(hint)
    assert sharded.element_type is ShardedKey
