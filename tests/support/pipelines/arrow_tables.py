"""Hypothesis strategies for Arrow tables, with the Python values that they are made of."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pyarrow as pa
from hypothesis import strategies as st


@attrs.frozen
class Table:
    """An Arrow table, and its rows as dictionaries of Python's values."""

    arrow: pa.Table
    rows: list[dict[str, Any]]


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
_INSTANTS = st.datetimes(
    datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(ZoneInfo("UTC"))
)
_QUARTERS = st.sampled_from([0.0, -0.0, 0.25, -1.5, 3.0, math.nan, math.inf, -math.inf])


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **{f"int{n}": (getattr(pa, f"int{n}")(), st.integers(-(2 ** (n - 1)), 2 ** (n - 1) - 1)) for n in (8, 16, 32, 64)},
    **{f"uint{n}": (getattr(pa, f"uint{n}")(), st.integers(0, 2**n - 1)) for n in (8, 16, 32, 64)},
    "float": (pa.float64(), st.floats()),
    "float32": (pa.float32(), st.floats(width=32)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), _TEXT),
    "large_text": (pa.large_string(), _TEXT),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "decimal": (pa.decimal128(12, 3), st.decimals(-99_999, 99_999, places=3)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us"), _TIMES),
    "instant": (pa.timestamp("us", "UTC"), _INSTANTS),
    "seconds": (pa.timestamp("s"), _TIMES.map(lambda time: time.replace(microsecond=0))),
    "day": (pa.date64(), st.dates()),
    "time_of_day": (pa.time64("us"), st.times()),
    "duration": (pa.duration("us"), st.timedeltas(datetime.timedelta(-9), datetime.timedelta(9))),
    "wide_decimal": (pa.decimal256(40, 2), st.decimals(-99_999, 99_999, places=2)),
    "two_bytes": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "none": (pa.null(), st.none()),
    # Sums of them don't depend on the order.
    "quarter": (pa.float64(), _QUARTERS),
    "quarter32": (pa.float32(), _QUARTERS),
    "list": (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.builds(lambda a, b: {"a": a, "b": b}, st.integers(-9, 9), st.none() | _TEXT),
    ),
}


@st.composite
def tables(
    draw: st.DrawFn,
    kinds: Sequence[str] = tuple(COLUMNS),
    min_columns: int = 1,
    min_rows: int = 0,
    max_rows: int = 6,
) -> Table:
    """Return tables of some columns, with nulls."""
    n = draw(st.integers(min_rows, max_rows))
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=min_columns, max_size=4))
    columns, values = {}, {}
    for i, kind in enumerate(chosen):
        arrow, one = COLUMNS[kind]
        name = f"{kind} {i}" if draw(st.booleans()) else f"c{i}"
        values[name] = draw(st.lists(st.none() | one if draw(st.booleans()) else one, min_size=n, max_size=n))
        columns[name] = pa.array(values[name], arrow)
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return Table(pa.table(columns), rows)


def same(left: Any, right: Any) -> bool:
    """Return whether values are equal and of the same types, with NaN equal to itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, Decimal):
        return bool(left == right)
    return bool(left == right)
