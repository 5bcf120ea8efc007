"""Expressions over fields mean what Python's operators mean; a bundle of columns has the elements of its rows."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pyarrow
import pyarrow.compute
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import penstock as beam
from penstock.sdk.columns.column_bundle import ColumnBundle
from penstock.sdk.columns.column_elements import as_dicts, as_rows, as_values
from penstock.sdk.columns.expressions import Column, Projection, Selection, bundle_of_records, micros_of_column
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import ColumnError
from penstock.windowing import IntervalWindow, Timestamp

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNARY: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "abs": abs}
NUMBERS = st.one_of(st.integers(-1000, 1000), st.floats(-1000, 1000).map(lambda x: round(x, 3)))
ROWS = st.one_of(
    st.lists(st.fixed_dictionaries({"a": st.integers(-99, 99), "b": st.integers(-99, 99)}), min_size=1, max_size=9),
    st.lists(st.fixed_dictionaries({"a": NUMBERS.map(float), "b": st.integers(-9, 9)}), min_size=1, max_size=9),
)


def expressions() -> st.SearchStrategy[tuple[Any, Callable[[dict[str, Any]], Any]]]:
    """Return strategies of pairs: an expression, and what it means for a record."""
    leaves = st.one_of(
        st.sampled_from("ab").map(lambda name: (beam.col(name), lambda row, name=name: row[name])),
        NUMBERS.map(lambda number: (number, lambda row, number=number: number)),
    )

    def larger(smaller: Any) -> Any:
        def of_two(parts: Any) -> Any:
            sign, (left, of_left), (right, of_right) = parts
            assume(isinstance(left, Column) or isinstance(right, Column))
            return BINARY[sign](left, right), lambda row: BINARY[sign](of_left(row), of_right(row))

        def of_one(parts: Any) -> Any:
            sign, (value, of_value) = parts
            return UNARY[sign](value), lambda row: UNARY[sign](of_value(row))

        numeric = st.sampled_from(["+", "-", "*", "/", "//", "%"])
        return st.one_of(
            st.tuples(numeric, smaller, smaller).map(of_two),
            st.tuples(st.sampled_from(list(UNARY)), smaller).map(of_one),
        )

    return st.recursive(leaves, larger, max_leaves=5).filter(lambda pair: isinstance(pair[0], Column))


@given(rows=ROWS, expression=expressions())
def test_an_expression_means_what_it_means_in_python(rows: list[dict[str, Any]], expression: Any) -> None:
    """Where it is defined for all elements; where it is not for one of them, it is an error."""
    column, meaning = expression
    try:
        expected = [meaning(row) for row in rows]
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(ColumnError):
            mapped(column, rows)
        return
    assume(all(abs(value) < 1e15 for value in expected))
    found = mapped(column, rows)
    assert pytest.approx(expected, rel=1e-9, abs=1e-9) == found
    if all(type(value) is int for value in expected):
        assert expected == found
        assert {int} == set(map(type, found))


def mapped(column: Column, rows: list[dict[str, Any]]) -> list[Any]:
    """Return the values of an expression for records."""
    return Projection((("value", column),), as_values).apply(bundle_of_records(rows)).values


@given(st.lists(st.integers(-9, 9), min_size=1), st.integers(-9, 9), st.sampled_from(list(BINARY)))
def test_each_operator_takes_a_constant_on_either_side(values: list[int], constant: int, sign: str) -> None:
    rows, function = [{"a": value} for value in values], BINARY[sign]
    for make, meaning in (
        (lambda: function(beam.col("a"), constant), lambda value: function(value, constant)),
        (lambda: function(constant, beam.col("a")), lambda value: function(constant, value)),
    ):
        try:
            expected = [meaning(value) for value in values]
        except ZeroDivisionError:
            with pytest.raises(ColumnError, match="divi"):
                mapped(make(), rows)
            continue
        assert expected == mapped(make(), rows)


LONG = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1])


@given(
    st.lists(st.none() | LONG),
    st.integers(1, 2**63 - 1) | st.integers(0, 62).map(lambda bits: 1 << bits),
    st.integers(0, 9),
)
def test_integers_are_divided_by_a_positive_constant(values: list[int | None], divisor: int, start: int) -> None:
    """Rounding down, with all bits of integers, by powers of two and others, and within a part of a batch."""
    a = beam.col("a")
    batch = pyarrow.record_batch({"a": pyarrow.array([7] * start + values, "int64")}).slice(start)
    for column, meaning in ((a // divisor, operator.floordiv), (a % divisor, operator.mod)):
        expected = [None if value is None else meaning(value, divisor) for value in values]
        assert expected == column.values(batch).to_pylist()


def test_a_constant_may_equal_another_of_another_type() -> None:
    """True, 1 and 1.0 are equal."""
    rows = [{"a": 3}]
    for constant, expected in ((1, 4), (1.0, 4.0), (1, 4)):
        (found,) = mapped(beam.col("a") + constant, rows)
        assert (expected, type(expected)) == (found, type(found))
    assert [True] == mapped((beam.col("a") == 3) == True, rows)  # noqa: E712


def test_truth_values_are_combined_by_bits() -> None:
    rows = [{"a": a, "b": b} for a in (True, False) for b in (True, False)]
    a, b = beam.col("a"), beam.col("b")
    assert [True, False, False, False] == mapped(a & b, rows)
    assert [True, True, True, False] == mapped(a | b, rows)
    assert [False, False, True, True] == mapped(~a, rows)
    with pytest.raises(TypeError, match=r"the truth of a > 1 is known for each element only; use &"):
        bool(a > 1)


def test_other_forms() -> None:
    rows = [{"a": 1, "s": "x"}, {"a": None, "s": "y"}]
    a, s = beam.col("a"), beam.col("s")
    assert [False, True] == mapped(a.is_null(), rows)
    assert [True, False] == mapped(s.isin(["x", "z"]), rows)
    assert ["1", None] == mapped(a.cast("string"), rows)
    assert ["X", "Y"] == mapped(s.apply(pyarrow.compute.utf8_upper), rows)
    assert [2, None] == mapped(a + 1, rows)
    assert [0, None] == mapped(a // 2, rows)
    assert [1, None] == mapped(a % 2, rows)
    kept = Selection(a > 0).apply(bundle_of_records(rows))
    assert kept.values == rows[:1]
    assert kept.values[0] is rows[0]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (lambda: beam.col("c") + 1, "there is no field 'c'; the elements have a, b"),
        (lambda: beam.col("a") * 2**62, "a \\* 4611686018427387904 can't be computed: overflow"),
        (lambda: beam.col("a") / 0, "a / 0 can't be computed: divide by zero"),
        (lambda: beam.col("a") % 0, "a number is divided by 0"),
        (lambda: beam.col("a") // 2**63, "a // 9223372036854775808 can't be computed: Python int too large"),
        (lambda: beam.col("a") + 2**63, "a \\+ 9223372036854775808 can't be computed: "),
        (lambda: beam.col("a") > "x", "a > 'x' can't be computed: .*"),
        (lambda: beam.col("a").apply(lambda a: a[:1]), r"a function returned 1 values for 2 elements"),
    ],
)
def test_what_can_not_be_computed_is_named(column: Callable[[], Column], expected: str) -> None:
    with pytest.raises(ColumnError, match=expected):
        mapped(column(), [{"a": 3, "b": "x"}, {"a": 4, "b": "y"}])


def test_a_filter_needs_truth_values() -> None:
    with pytest.raises(ColumnError, match="a \\+ 1 is of the type int64; expected true or false"):
        Selection(beam.col("a") + 1).apply(bundle_of_records([{"a": 1}]))


def test_elements_have_whole_numbers_of_64_bits() -> None:
    """Arrow's largest type is inferred for the numbers that need it."""
    rows = [beam.Row(a=2**64 - 1), beam.Row(a=1)]
    assert rows == Selection(~beam.col("a").is_null()).apply(bundle_of_records(rows)).values
    with pytest.raises(ColumnError, match="the field 'a'"):
        Selection(beam.col("a") > 1).apply(bundle_of_records([*rows, beam.Row(a=-1)]))


def test_elements_without_fields_are_refused() -> None:
    with pytest.raises(ColumnError, match="expected an element with named fields .*, got 3"):
        bundle_of_records([3])
    mixed = bundle_of_records([{"b": 2, "a": 1}, {"b": 3, "a": "x"}])
    assert [{"b": 3, "a": "x"}] == Selection(beam.col("b") > 2).apply(mixed).values
    with pytest.raises(ColumnError, match="the elements can't be converted to columns: the field 'a': .*'x'"):
        Selection(beam.col("a") > 2).apply(mixed)
    with pytest.raises(ColumnError, match="the field 'place': Could not convert Row"):
        Selection(beam.col("place").is_null()).apply(bundle_of_records([beam.Row(n=1, place=beam.Row(x=1))]))


def test_an_expression_is_pickled() -> None:
    column = pickle.loads(pickle.dumps(beam.col("a").isin([1]) | (beam.col("a") // 2 == 2)))
    assert "a.isin([1]) | ((a // 2) == 2)" == column.text
    assert [True, False, True] == mapped(column, [{"a": 1}, {"a": 3}, {"a": 4}])


def test_event_times_of_columns() -> None:
    """Whole seconds, fractions, and Arrow timestamps of any unit."""
    for values, kind in (([1, -2], "int64"), ([1, 2], "uint8"), ([0.25, 1e9 + 0.000001], "float64")):
        expected = [Timestamp.of(value).micros for value in values]
        assert expected == micros_of_column(pyarrow.array(values, kind)).tolist()
    for unit in ("s", "ms", "us", "ns"):
        column = pyarrow.array([1, -1], "int64").cast("timestamp[s]").cast(f"timestamp[{unit}]")
        assert [1_000_000, -1_000_000] == micros_of_column(column).tolist()
    with pytest.raises(ColumnError, match="the event time of an element is null"):
        micros_of_column(pyarrow.array([1, None]))
    with pytest.raises(ValueError, match="expected a timestamp within"):
        micros_of_column(pyarrow.array([2**62]))


@given(data=st.data(), n=st.integers(0, 6))
def test_a_bundle_of_columns_is_one_of_rows(data: st.DataObject, n: int) -> None:
    """However it is cut and filtered, whichever of its columns vary."""
    batch = pyarrow.record_batch({"a": list(range(n)), "b": [str(i) for i in range(n)]})
    batch = batch.select(data.draw(st.sampled_from([["a"], ["b"], ["a", "b"]])))
    windows = [(IntervalWindow(0, 1),), (IntervalWindow(0, 1), IntervalWindow(1, 2))]
    micros = data.draw(st.sampled_from([5, numpy.arange(n)]))
    assigned: Any = data.draw(st.sampled_from([windows[0], windows[1], (numpy.arange(n) % 2, windows)]))
    signs: Any = data.draw(st.sampled_from([1, [1, -1] * 3][:2])) if n else 1
    signs = signs[:n] if isinstance(signs, list) else signs
    elements = data.draw(st.sampled_from([as_rows, as_dicts]))
    columns = ColumnBundle(batch, elements, micros, assigned, signs=signs)
    if data.draw(st.booleans()):
        _ = columns.values
    rows = Bundle(columns.values, columns.timestamps, columns.windows, columns.panes, columns.signs)
    assert list(rows.rows()) == list(columns.rows())
    start, stop = sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))
    assert list(rows.part(start, stop).rows()) == list(columns.part(start, stop).rows())
    mask = [data.draw(st.sampled_from([True, False, None])) for _ in range(n)]
    kept = [row for row, is_kept in zip(rows.rows(), mask, strict=True) if is_kept]
    assert kept == list(columns.where(pyarrow.array(mask, pyarrow.bool_())).rows())
    places = data.draw(st.lists(st.integers(0, n - 1), max_size=9)) if n else []
    taken = columns.taken(numpy.array(places, numpy.int64))
    assert [list(rows.rows())[place] for place in places] == list(taken.rows())
    assert list(rows.rows()) == list(pickle.loads(pickle.dumps(columns)).rows())
