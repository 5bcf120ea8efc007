"""Aggregates of groups: what pandas computes, composed of aggregates that Arrow computes.

Missing values, None and NaN, count for nothing: a sum of none is 0, and a mean is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..sdk.columns.column_elements import as_rows
from ..sdk.columns.expressions import Column, Projection, field_of
from ..sdk.columns.pandas_functions import constant, division, filled, missing
from ..sdk.combine_fn import CombineFn
from ..sdk.dofn.dofn import ColumnDoFn
from ..sdk.elements.row import Row
from ..sdk.pvalue import PCollection
from ..sdk.typehints.column_types import type_in
from ..sdk.typehints.schema import with_schema
from ..transforms import Filter, GroupBy, ParDo
from .frame_base import check_columns, refuse, refuse_arguments

AGGREGATES = ("sum", "mean", "count", "size", "min", "max")


def label_of(pcoll: PCollection[Any], operation: str) -> str:
    """Return a label for a transform of a frame, with a number if the operation was used before."""
    taken = pcoll.pipeline.applied_labels
    label, n = f"df.{operation}", 1
    while any(one == label or one.endswith(f"/{label}") or one.startswith(f"{label}/") for one in taken):
        n += 1
        label = f"df.{operation} {n}"
    return label


def projected(pcoll: PCollection[Any], fields: dict[str, Column], label: str) -> PCollection[Any]:
    """Return Rows with these fields."""
    hint = with_schema(Row, [(name, type_in(column, pcoll.hint)) for name, column in fields.items()])
    operation = Projection(tuple(fields.items()), as_rows)
    return pcoll | label >> ParDo(ColumnDoFn(operation, label)).with_output_types(hint)


def aggregated(
    pcoll: PCollection[Any],
    keys: dict[str, Column],
    aggregates: Iterable[tuple[str, Column, str]],
    dropna: bool,
    label: str,
) -> tuple[PCollection[Any], dict[str, Column], dict[str, Column]]:
    """Return rows of a group each, and expressions over them for the keys and the aggregates.

    Args:
      aggregates: a name, the aggregated expression, and one of `AGGREGATES`, for each.
      dropna: leaves out rows with a missing key.
    """
    if dropna:
        is_kept = ~missing(next(iter(keys.values())))
        for key in list(keys.values())[1:]:
            is_kept = is_kept & ~missing(key)
        pcoll = pcoll | f"{label}/Keys that are there" >> Filter(is_kept)
    parts: dict[str, tuple[Column, Any]] = {}
    results = {}
    for number, (name, column, aggregate) in enumerate(aggregates):
        kind = type_in(column, pcoll.hint)
        results[name] = _result(parts, f"a{number}", column, aggregate, kind, name)
    key_names = {name: f"k{i}" for i, name in enumerate(keys)}
    grouping: Any = GroupBy(**{key_names[name]: column for name, column in keys.items()})
    for part, (column, combine_fn) in (parts or {"n": (constant(1), sum)}).items():
        grouping = grouping.aggregate_field(column, combine_fn, part)
    rows = pcoll | label >> grouping
    types = [(key_names[name], type_in(column, pcoll.hint)) for name, column in keys.items()]
    types += [(part, _part_type(column, pcoll, combine_fn)) for part, (column, combine_fn) in parts.items()]
    rows.hint = with_schema(Any, types)
    return rows, {name: field_of(key_names[name]) for name in keys}, results


def _part_type(column: Column, pcoll: PCollection[Any], combine_fn: Any) -> Any:
    kind = type_in(column, pcoll.hint)
    return "int64" if str(kind) == "bool" and combine_fn is sum else kind


def _result(
    parts: dict[str, tuple[Column, Any]], part: str, column: Column, aggregate: str, kind: Any, name: str
) -> Column:
    """Add the parts of an aggregate, and return the expression of its result over them."""
    if aggregate == "size":
        parts[part] = constant(1), sum
        return field_of(part)
    there = (~missing(column)).cast("int64")
    if aggregate == "count":
        parts[part] = there, sum
        return field_of(part)
    is_number = str(kind) in ("int64", "double", "int32", "float", "bool", "int8", "int16", "float32", "halffloat")
    if aggregate in ("sum", "mean"):
        if not is_number:
            refuse(f"groupby(...).{aggregate}()", reason=f"column {name!r} is of the type {kind}; expected numbers")
        numbers = column.cast("int64") if str(kind) == "bool" else column
        parts[part] = filled(numbers, 0), sum
        if aggregate == "sum":
            return field_of(part)
        parts[f"{part}n"] = there, sum
        # 0 / 0 is NaN.
        return division(field_of(part), field_of(f"{part}n"))
    parts[part] = column, Extreme(aggregate == "max")
    return field_of(part)


class DeferredGroupBy:
    """The groups of a frame.

    Args:
      pcoll, columns: the frame's.
      frame_of: makes a frame of a PCollection, the expressions of its index, and those of its columns.

    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_dataframe, to_pcollection
    >>> rows = [beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1), beam.Row(item="tea", cups=3)]
    >>> with beam.Pipeline() as p:
    ...     df = to_dataframe(p | beam.Create(rows))
    ...     sums = df.groupby("item").agg(cups=("cups", "sum"), sales=("cups", "size"))
    ...     _ = to_pcollection(sums, include_indexes=True) | beam.Map(print)
    Result(item='tea', cups=5, sales=2)
    Result(item='milk', cups=1, sales=1)
    """

    def __init__(
        self,
        pcoll: PCollection[Any],
        columns: dict[str, Column],
        frame_of: Callable[..., Any],
        keys: dict[str, Column],
        as_index: bool,
        dropna: bool,
        chosen: Sequence[str] | str | None = None,
    ) -> None:
        self._pcoll = pcoll
        self._columns = columns
        self._frame_of = frame_of
        self._keys = keys
        self._as_index = as_index
        self._dropna = dropna
        self._chosen = chosen

    def __getitem__(self, chosen: Any) -> DeferredGroupBy:
        check_columns([chosen] if isinstance(chosen, str) else chosen, self._columns)
        parts = (self._pcoll, self._columns, self._frame_of)
        return DeferredGroupBy(*parts, self._keys, self._as_index, self._dropna, chosen)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in AGGREGATES:
            return lambda **arguments: self._aggregate(name, arguments)
        if name in self._columns:
            return self[name]
        refuse(f"groupby(...).{name}", reason=f"expected one of {', '.join(AGGREGATES)} and agg")

    def _names(self) -> list[str]:
        if isinstance(self._chosen, str):
            return [self._chosen]
        return list(self._chosen or [name for name in self._columns if name not in self._keys])

    def _aggregate(self, name: str, arguments: dict[str, Any]) -> Any:
        refuse_arguments(f"groupby(...).{name}", arguments, numeric_only=False)
        if name == "size":
            column = next(iter(self._keys.values()))
            sizes = self._result([("size", column, "size")])
            return sizes["size"].rename(None) if self._as_index else sizes
        found = self._result([(own, self._columns[own], name) for own in self._names()])
        return found[self._chosen] if isinstance(self._chosen, str) and self._as_index else found

    def agg(self, func: Any = None, **named: Any) -> Any:
        """Return aggregates: by name for all columns, by column in a dict, or `name=(column, aggregate)`."""
        if isinstance(func, str) and not named:
            if func not in AGGREGATES:
                refuse(f"groupby(...).agg({func!r})", reason=f"expected one of {', '.join(AGGREGATES)}")
            return self._aggregate(func, {})
        wanted = {name: (name, one) for name, one in func.items()} if isinstance(func, dict) else dict(named)
        if not wanted or (isinstance(func, dict) and named):
            refuse(f"groupby(...).agg({func!r:.60})", reason="expected a name, a dict, or name=(column, aggregate)")
        aggregates = []
        for name, (own, aggregate) in wanted.items():
            check_columns([own], self._columns)
            if not isinstance(aggregate, str) or aggregate not in AGGREGATES:
                refuse(f"groupby(...).agg({aggregate!r:.60})", reason=f"expected one of {', '.join(AGGREGATES)}")
            aggregates.append((name, self._columns[own], aggregate))
        return self._result(aggregates)

    aggregate = agg

    def _result(self, aggregates: list[tuple[str, Column, str]]) -> Any:
        label = label_of(self._pcoll, "groupby")
        rows, keys, columns = aggregated(self._pcoll, self._keys, aggregates, self._dropna, label)
        if self._as_index:
            return self._frame_of(rows, keys, columns)
        return self._frame_of(rows, {}, {**keys, **columns})


class Extreme(CombineFn[Any, Any, Any]):
    """The least or the greatest value, of those that aren't missing.

    >>> import penstock as beam
    >>> [2, None, 5, float("nan")] | beam.CombineGlobally(Extreme(is_max=True))
    [5]
    """

    def __init__(self, is_max: bool) -> None:
        self.is_max = is_max

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, accumulator: Any, element: Any) -> Any:
        if element is None or element != element:
            return accumulator
        if accumulator is None or (element > accumulator if self.is_max else element < accumulator):
            return element
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        result = None
        for accumulator in accumulators:
            result = self.add_input(result, accumulator)
        return result

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator
