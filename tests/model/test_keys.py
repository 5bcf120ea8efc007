"""Equality of keys: that of Python, on every runner and in every process."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import attrs
import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.coders import Coder, registry
from penstock.sdk.errors import InvalidKeyError
from penstock.windowing import Duration, GlobalWindow, IntervalWindow, Timestamp


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int


@attrs.frozen
class Frozen:
    name: str
    place: Point


KEYS: list[Any] = [
    None,
    "a",
    "",
    "é\ud800",
    b"a",
    0,
    -1,
    1 << 70,
    0.5,
    float("inf"),
    Decimal("0.1"),
    Fraction(1, 3),
    2j,
    ("a", 1),
    (),
    ("a", ("b", None)),
    frozenset({1, 2}),
    Colour.RED,
    Colour.BLUE,
    Access.READ | Access.WRITE,
    Frozen("here", Point(1, 2)),
    beam.Row(a=1, b="x"),
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
    dt.timedelta(seconds=1.5),
    uuid.UUID(int=7),
    IntervalWindow(0, 10),
    GlobalWindow(),
]


def test_keys_of_many_types_group_by_equality(pipeline: Any) -> None:
    """Each comes back as it was, of its own type."""
    with pipeline as p:
        pairs = p | beam.Create([(key, i) for key in KEYS for i in (1, 10)])
        check([(key, 11) for key in KEYS], pairs | beam.CombinePerKey(sum))
        groups = pairs | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sorted(v)))
        check([(key, [1, 10]) for key in KEYS], groups)


def test_equal_numbers_are_one_key_whatever_their_type(pipeline: Any) -> None:
    """As they are in a dictionary."""
    ones: list[Any] = [1, 1.0, True, Decimal(1), Fraction(1), 1 + 0j, Size.SMALL]
    with pipeline as p:
        pairs = p | beam.Create([(one, 1) for one in ones]) | beam.Reshuffle()
        check([len(ones)], pairs | beam.CombinePerKey(sum) | beam.Values())
        check([len(ones)], pairs | beam.GroupByKey() | beam.MapTuple(lambda key, values: len(list(values))))
        check([1], pairs | beam.Keys() | beam.Distinct() | beam.combiners.Count.Globally())


def test_timestamps_are_the_same_keys_as_their_seconds(pipeline: Any) -> None:
    """To which they are equal, with fractions as well."""
    with pipeline as p:
        pairs = p | beam.Create([(t, 1) for t in (Timestamp(1), 1, Duration(1), Timestamp(0.5), 0.5)])
        check([3, 2], pairs | beam.Reshuffle() | beam.CombinePerKey(sum) | beam.Values())


def test_equal_containers_are_one_key_whatever_their_type(pipeline: Any) -> None:
    """A named tuple is a tuple, and what it holds is compared by value."""
    same: list[Any] = [(1, 2), Point(1, 2), (1.0, 2), (True, 2)]
    with pipeline as p:
        pairs = p | beam.Create([(key, 1) for key in same]) | beam.Reshuffle()
        check([(4)], pairs | beam.CombinePerKey(sum) | beam.Values())


def test_different_keys_stay_apart(pipeline: Any) -> None:
    """Also when they look alike."""
    different: list[Any] = [1, "1", b"1", (1,), ("1",), frozenset({1}), beam.Row(a=1), None, "None", 0, "", 1 << 64, -1]
    with pipeline as p:
        counts = p | beam.Create(different) | beam.combiners.Count.PerElement()
        check([(key, 1) for key in different], counts)


class Celsius:
    """A class of the user's, with a coder of its own."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and self.degrees == other.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)


class CelsiusCoder(Coder):
    def encode(self, value: Any) -> bytes:
        return str(float(value.degrees)).encode()

    def decode(self, encoded: bytes) -> Any:
        return Celsius(float(encoded))

    def is_deterministic(self) -> bool:
        return True


def test_a_class_with_a_registered_coder_can_be_a_key(pipeline: Any) -> None:
    """Where the coder is deterministic."""
    registry.register_coder(Celsius, CelsiusCoder)
    with pipeline as p:
        pairs = p | beam.Create([20, 20.0, 21]) | beam.Map(lambda degrees: (Celsius(degrees), 1))
        sums = pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, n: (key.degrees, n))
        check([(20, 2), (21, 1)], sums)


class Restored:
    """Equal by its state, which `__getstate__` returns."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __getstate__(self) -> Any:
        return self.state

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.state == other.state

    def __hash__(self) -> int:
        return len(self.state)


class RestoredElsewhere(Restored):
    """Another class with the same states."""


class RestoredByIdentity(Restored):
    """Equal to nothing but itself, whatever its state."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def test_a_class_with_a_state_can_be_a_key(pipeline: Any) -> None:
    """A state is a key, or a dict in whatever order; the class belongs to the key."""
    first, second = {"a": 1, "b": "x"}, {"b": "x", "a": 1}
    keys = [Restored(first), Restored(second), RestoredElsewhere(first), Restored("x"), Restored(("a", 1, "b", "x"))]
    with pipeline as p:
        sums = p | beam.Create([(key, 1) for key in keys]) | beam.CombinePerKey(sum)
        named = sums | beam.MapTuple(lambda key, n: (type(key).__name__, key.state, n))
        others = [("Restored", "x", 1), ("Restored", ("a", 1, "b", "x"), 1), ("RestoredElsewhere", first, 1)]
        check([("Restored", first, 2), *others], named)


class Opaque:
    """Equal to nothing but itself, with an address for a hash."""


class Loose(Opaque):
    pass


class LooseCoder(Coder):
    def encode(self, value: Any) -> bytes:
        return b""

    def decode(self, encoded: bytes) -> Any:
        return Loose()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (float("nan"), "Sum: nan .* is not equal to itself"),
        ([1], r"Sum: .*\[1\].* unhashable"),
        ({"a": 1}, r"Sum: .*\{'a': 1\}.* unhashable"),
        (("a", [1]), r"Sum: .*unhashable"),
        (Opaque(), "Sum: .*Opaque.* has no deterministic encoding"),
        (RestoredByIdentity("a"), "Sum: .*RestoredByIdentity.* has no deterministic encoding"),
        (Restored([1]), "Sum: .*unhashable"),
        ((1, Opaque()), "Sum: .*Opaque.* has no deterministic encoding"),
        (Loose(), "Sum: .*Loose.* is encoded by LooseCoder, which is not deterministic"),
    ],
    ids=[
        "nan",
        "list",
        "dict",
        "list in tuple",
        "object",
        "state without equality",
        "state that is no key",
        "object in tuple",
        "coder",
    ],
)
def test_what_can_not_be_a_key_is_refused_at_the_first_element(pipeline: Any, key: Any, message: str) -> None:
    """The message names the transform and says what to do."""
    registry.register_coder(Loose, LooseCoder)
    _ = pipeline | beam.Create([("fine", 1), (key, 1)]) | "Sum" >> beam.CombinePerKey(sum)
    with pytest.raises(InvalidKeyError, match=message) as error:
        pipeline.run()
    assert "Sum" == error.value.transform
    assert isinstance(error.value, TypeError)
