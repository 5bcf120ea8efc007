"""Columns come back as they were: the same values, of the same types."""

from __future__ import annotations

import decimal
import enum
import pickle
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import cloudpickle
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.serialization.column_codec import (
    decode_column,
    encode_column,
)
from penstock.sdk.errors import SerializationError
from penstock.windowing import GLOBAL_WINDOW, IntervalWindow

Point = namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    pass


class Opposite(NamedTuple):
    value: int

    def __reduce__(self) -> Any:
        return Opposite, (-self.value,)


@attrs.frozen
class Pair:
    a: Any
    b: Any


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None, exclude_categories=()))
    | st.binary()
)
intervals = st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)).map(lambda t: IntervalWindow.of_micros(*t))
odd = st.sampled_from([Colour.RED, Text("a"), Point(1, 2), Pair(1, "b"), GLOBAL_WINDOW, decimal.Decimal("0.10")])
values = st.recursive(
    scalars | intervals | odd,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=6,
)
# What columns are mostly like: of one type, or tuples of such.
columns = (
    st.lists(st.integers(), min_size=1)
    | st.lists(st.text(), min_size=1)
    | st.lists(intervals)
    | st.lists(st.tuples(scalars, st.tuples(st.integers(), intervals)))
    | st.lists(st.builds(Point, scalars, st.builds(Point, st.integers(), intervals)))
    | st.lists(values)
)


def shape(value: Any) -> Any:
    """A value with the types that it is made of, since 1 == True == Colour.RED."""
    if isinstance(value, (list, tuple)):
        return type(value), [shape(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(shape(k), shape(v)) for k, v in value.items()]
    return type(value), repr(value)


@given(columns)
def test_columns_come_back_as_they_were(column: list[Any]) -> None:
    """Values, types, and order."""
    assert shape(column) == shape(decode_column(encode_column(column)))


@given(columns)
def test_a_column_can_be_read_from_a_part_of_something_larger(column: list[Any]) -> None:
    """As a block hands it on."""
    data = encode_column(column)
    assert shape(column) == shape(decode_column(memoryview(b"12" + data + b"345")[2:-3]))


@pytest.mark.parametrize(
    "column",
    [
        [2**63, 2**64 - 1, 2**64, -(2**63) - 1],
        ["\ud800"],
        [1, True],
        [True, 1],
        [1, 1.0],
        [1, None, 2**40],
        [2**31 - 1, -(2**31)],
        [2**31, 1],
        [1, 2**31],
        [1, Colour.RED],
        [1, b"", "i\0\0\0\0"],
        [1, numpy.int64(2)],
        [1, numpy.array([2])],
        [0.5, numpy.float64(0.5)],
        [1, bytearray(b"i")],
        [0.5, 1],
        [Text("a")],
        [Colour.RED],
        [numpy.int64(1), numpy.float32(0.5), numpy.str_("a")],
        [Point(1, 2), Point(3, 4)],
        [(1, 2), (1, 2, 3)],
        [(), ()],
        [(1, 2), None],
        [-0.0, float("inf")],
        [[1], [2]],
        [],
    ],
)
def test_what_message_pack_would_change_is_left_to_pickle(column: list[Any]) -> None:
    """Types that only look like those it knows; numbers that are too large; tuples that aren't rows."""
    assert shape(column) == shape(decode_column(encode_column(column)))


def test_numbers_in_checkpoints_of_earlier_versions_are_read() -> None:
    """The format is documented in docs/checkpoint_format.md, whatever the interpreter's `marshal` does."""
    integers = b"#[\x02\0\0\0i\x01\0\0\0i\xfe\xff\xff\xff"
    floats = b"#[\x02\0\0\0g\0\0\0\0\0\0\xf8\x3fg\0\0\0\0\0\0\0\x80"
    for encoded, values in ((integers, [1, -2]), (floats, [1.5, -0.0])):
        assert repr(values) == repr(decode_column(encoded))


def test_nan_comes_back() -> None:
    """It isn't equal to itself."""
    (value,) = decode_column(encode_column([float("nan")]))
    assert value != value


def test_deep_tuples_come_back() -> None:
    """Columns within columns, but not for ever."""
    value: Any = 1
    for _ in range(200):
        value = (value,)
    assert [value] == decode_column(encode_column([value]))


@pytest.mark.parametrize("make", [lambda i: f"word {i}", lambda i: (f"user-{i % 100}", (1 << 40, f"page {i}"))])
def test_common_columns_are_written_by_message_pack(make: Callable[[int], Any]) -> None:
    """They are smaller than what pickle makes of them."""
    column = [make(i) for i in range(1000)]
    assert len(encode_column(column)) < len(pickle.dumps(column, protocol=5))


def test_windows_take_two_numbers() -> None:
    """As columns; not an object each."""
    windows = [IntervalWindow(60 * i, 60 * i + 60) for i in range(100)]
    assert len(encode_column(windows)) < 20 * len(windows)


def test_a_class_without_a_name_to_import_it_by_comes_back() -> None:
    """Such as one of a notebook, or of a file beside the script."""

    @attrs.frozen
    class Local:
        a: int

    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(Local(1))
    assert [Local(1), Local(2)] == decode_column(encode_column([Local(1), Local(2)]))


def test_what_cannot_be_pickled_is_an_error() -> None:
    """With what pickle says, and what to do."""
    with pytest.raises(SerializationError, match="cannot pickle.*have to be data"):
        encode_column([(i for i in "generator")])


def test_named_tuples_are_a_column_for_each_field() -> None:
    """Also where the class can't be imported by its name."""
    Local = namedtuple("Local", "name at")

    for kind in (Point, Local):
        column = [kind(f"point {i}", Point(i, i + 1)) for i in range(1000)]
        data = encode_column(column)
        assert len(data) < 0.7 * len(cloudpickle.dumps(column))
        assert shape(column) == shape(decode_column(data))


class WithAttributes(namedtuple("WithAttributes", "x y")):
    pass


class Halved(namedtuple("Halved", "x y")):
    __slots__ = ()

    def __reduce__(self) -> Any:
        return Halved, (self.x // 2, self.y)


def test_what_a_named_tuple_adds_to_its_items_comes_back() -> None:
    """Attributes of a subclass, and its own way to be pickled."""
    value = WithAttributes(1, 2)
    value.z = 3  # type: ignore[attr-defined]

    (found,) = decode_column(encode_column([value]))
    assert (WithAttributes, (1, 2), 3) == (type(found), found, found.z)
    assert [Halved(1, 3)] == decode_column(encode_column([Halved(2, 3)]))


def test_a_named_tuple_class_may_define_how_it_is_pickled() -> None:
    """In its own body, where nothing is inherited."""
    assert [Opposite(-1)] == decode_column(encode_column([Opposite(1)]))
