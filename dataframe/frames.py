"""DeferredDataFrame and DeferredSeries: columns of a PCollection, as expressions over the fields of its rows.

Expressions are computed together when a frame becomes a PCollection.  A filter, a group's aggregates and a join have
other rows, and so give a frame over another PCollection; series of other rows can't be combined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow

from ..sdk.columns import pandas_functions
from ..sdk.columns.expressions import Column, field_of
from ..sdk.pvalue import PCollection
from ..sdk.typehints.column_types import type_in
from ..transforms import Filter, FlatMap
from ..transforms.combiners import Top
from .frame_base import check_columns, refuse, refuse_arguments
from .grouping import DeferredGroupBy, aggregated, label_of, projected
from .joining import BOTH, HOWS, joined
from .text_methods import TextMethods

# The functions of Arrow for comparisons.
_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


class DeferredFrame:
    """Base class of frames and series: rows of a PCollection, and expressions for the index, by name."""

    def __init__(self, pcoll: PCollection[Any], index: dict[str, Column]) -> None:
        self._pcoll = pcoll
        self._index = index

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(name, "series" if isinstance(self, DeferredSeries) else "frame")

    def __bool__(self) -> bool:
        raise TypeError("the truth of a deferred frame is unknown; use &, | and ~ for and, or and not")

    def __iter__(self) -> Any:
        refuse("__iter__", reason="rows exist only while the pipeline runs")

    def _expression(self, other: Any) -> Any:
        """Return a series of the same rows as an expression, and a constant as it is."""
        if isinstance(other, DeferredSeries):
            if other._pcoll is not self._pcoll:
                reason = "filter, join or group the frame they are columns of"
                refuse("align", reason=f"{other._name!r} is a series of other rows; {reason}")
            return other._column
        if isinstance(other, DeferredFrame):
            refuse("align", reason="expected a series or a constant, got a frame")
        return other


class DeferredSeries(DeferredFrame):
    """One column of a frame.

    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_dataframe, to_pcollection
    >>> rows = [beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1), beam.Row(item="tea", cups=3)]
    >>> with beam.Pipeline() as p:
    ...     df = to_dataframe(p | beam.Create(rows))
    ...     many = df[df.cups.between(2, 5) & (df.item == "tea")].cups
    ...     _ = to_pcollection(many) | beam.Map(print)
    2
    3
    """

    def __init__(self, pcoll: PCollection[Any], index: dict[str, Column], name: str | None, column: Column) -> None:
        super().__init__(pcoll, index)
        self._name = name
        self._column = column

    __hash__ = None  # type: ignore[assignment]

    @property
    def name(self) -> str | None:
        """The name of the column."""
        return self._name

    def _with(self, column: Column) -> DeferredSeries:
        return DeferredSeries(self._pcoll, self._index, self._name, column)

    def __eq__(self, other: object) -> DeferredSeries:  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> DeferredSeries:  # type: ignore[override]
        return self._compared("!=", other)

    def __lt__(self, other: Any) -> DeferredSeries:
        return self._compared("<", other)

    def __le__(self, other: Any) -> DeferredSeries:
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> DeferredSeries:
        return self._compared(">", other)

    def __ge__(self, other: Any) -> DeferredSeries:
        return self._compared(">=", other)

    def _compared(self, sign: Any, other: Any) -> DeferredSeries:
        other = self._expression(other)
        return self._with(pandas_functions.comparison(_COMPARISONS[sign], sign, self._column, other))

    def __truediv__(self, other: Any) -> DeferredSeries:
        return self._with(pandas_functions.division(self._column, self._expression(other)))

    def __rtruediv__(self, other: Any) -> DeferredSeries:
        return self._with(pandas_functions.division(self._expression(other), self._column))

    def __invert__(self) -> DeferredSeries:
        return self._with(~self._column)

    def __neg__(self) -> DeferredSeries:
        return self._with(-self._column)

    def __abs__(self) -> DeferredSeries:
        return self._with(abs(self._column))

    abs = __abs__

    def between(self, left: Any, right: Any, inclusive: str = "both") -> DeferredSeries:
        """Return whether values are between two others."""
        refuse_arguments("between", {"inclusive": inclusive}, inclusive="both")
        found: DeferredSeries = (self >= left) & (self <= right)
        return found

    def isin(self, values: Iterable[Any]) -> DeferredSeries:
        """Return whether values are among others."""
        return self._with(pandas_functions.isin(self._column, values))

    def isna(self) -> DeferredSeries:
        """Return whether values are None or NaN."""
        return self._with(pandas_functions.missing(self._column))

    isnull = isna

    def notna(self) -> DeferredSeries:
        """Return whether values are neither None nor NaN."""
        return ~self.isna()

    notnull = notna

    def fillna(self, value: Any, **arguments: Any) -> DeferredSeries:
        """Return the values, with another in the place of None and NaN."""
        refuse_arguments("fillna", arguments, inplace=False)
        return self._with(pandas_functions.filled(self._column, self._expression(value)))

    def astype(self, dtype: Any, **arguments: Any) -> DeferredSeries:
        """Return the values as numbers, or whole numbers as text."""
        refuse_arguments("astype", arguments, copy=True)
        kind = _ARROW_TYPES.get(dtype) or _ARROW_TYPES.get(getattr(dtype, "name", None))
        own = type_in(self._column, self._pcoll.hint)
        if kind is None or (kind == "string" and "int" not in str(own) and str(own) != "string"):
            refuse(
                f"astype({dtype!r})",
                reason=f"the column is of the type {own}; expected int, float, or str of int",
            )
        column = self._column.apply(pyarrow.compute.trunc) if kind == "int64" and str(own) == "double" else self._column
        return self._with(column.cast(kind))

    def rename(self, name: str) -> DeferredSeries:
        """Return the series with another name."""
        return DeferredSeries(self._pcoll, self._index, name, self._column)

    def to_frame(self, name: str | None = None) -> DeferredDataFrame:
        """Return a frame with this column."""
        return DeferredDataFrame(self._pcoll, self._index, {name or self._name or "0": self._column})

    def reset_index(self, name: str | None = None) -> DeferredDataFrame:
        """Return a frame with the index as columns."""
        return self.to_frame(name).reset_index()

    def to_csv(self, path: Any, **arguments: Any) -> Any:
        """Write the series as a frame; see `DeferredDataFrame.to_csv`."""
        return self.to_frame().to_csv(path, **arguments)

    def agg(self, func: str, **arguments: Any) -> DeferredSeries:
        """Return a series of one row, of each window with rows: the sum, mean, count, min or max of the values."""
        if func not in ("sum", "mean", "count", "min", "max"):
            refuse(func if isinstance(func, str) else f"agg({func!r:.40})", "series")
        refuse_arguments(func, arguments, skipna=True, numeric_only=False)
        label = label_of(self._pcoll, func)
        every = {"all": pandas_functions.constant(0)}
        rows, _, found = aggregated(self._pcoll, every, [("value", self._column, func)], False, label)
        return DeferredSeries(rows, {}, self._name, found["value"])

    aggregate = agg

    def __getitem__(self, mask: Any) -> DeferredSeries:
        column, pcoll = self._column, _filtered(self, mask)
        return DeferredSeries(pcoll, self._index, self._name, column)


def _operator(name: str) -> Callable[[DeferredSeries, Any], DeferredSeries]:
    def operate(self: DeferredSeries, other: Any) -> DeferredSeries:
        return self._with(getattr(self._column, name)(self._expression(other)))

    return operate


def _aggregate(name: str) -> Callable[..., DeferredSeries]:
    def aggregate(self: DeferredSeries, **arguments: Any) -> DeferredSeries:
        return self.agg(name, **arguments)

    return aggregate


for _name in ("sum", "mean", "count", "min", "max"):
    setattr(DeferredSeries, _name, _aggregate(_name))

# Not in the class, where `str` is a type.
setattr(DeferredSeries, "str", property(lambda series: TextMethods(series._column, series._with)))  # noqa: B010

for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "and", "or", "xor"):
    setattr(DeferredSeries, f"__{_name}__", _operator(f"__{_name}__"))

_ARROW_TYPES: dict[Any, str] = {
    **dict.fromkeys([int, "int", "int64"], "int64"),
    **dict.fromkeys([float, "float", "float64"], "double"),
    **dict.fromkeys([str, "str", "string"], "string"),
}


class DeferredDataFrame(DeferredFrame):
    """Columns of a PCollection of rows, by name.

    >>> import penstock as beam
    >>> from penstock.dataframe.convert import to_dataframe, to_pcollection
    >>> rows = [beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1), beam.Row(item="tea", cups=3)]
    >>> with beam.Pipeline() as p:
    ...     df = to_dataframe(p | beam.Create(rows))
    ...     df["price"] = df.cups * 1.5
    ...     _ = to_pcollection(df[df.cups > 1].drop(columns="cups")) | beam.Map(print)
    Result(item='tea', price=3.0)
    Result(item='tea', price=4.5)
    """

    def __init__(self, pcoll: PCollection[Any], index: dict[str, Column], columns: dict[str, Column]) -> None:
        super().__init__(pcoll, index)
        self._columns = columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    @property
    def loc(self) -> _Loc:
        """Rows by a mask: `df.loc[mask]` and `df.loc[mask, columns]`."""
        return _Loc(self)

    def __getattr__(self, name: str) -> Any:
        columns = self.__dict__.get("_columns", {})
        return self._series(name) if name in columns else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_columns", {}):
            self[name] = value
        else:
            super().__setattr__(name, value)

    def _series(self, name: str) -> DeferredSeries:
        self._check([name])
        return DeferredSeries(self._pcoll, self._index, name, self._columns[name])

    def _check(self, names: Iterable[Any]) -> None:
        check_columns(names, self._columns)

    def _with(self, columns: dict[str, Column]) -> DeferredDataFrame:
        return DeferredDataFrame(self._pcoll, self._index, columns)

    def _all(self) -> dict[str, Column]:
        """Return the columns and the index by name.  Raises `ValueError` for a name of both."""
        for name in self._index:
            if name in self._columns:
                raise ValueError(f"{name!r} is the name of a column and of the index; rename one of them")
        return {**self._index, **self._columns}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, DeferredSeries):
            return DeferredDataFrame(_filtered(self, key), self._index, dict(self._columns))
        if isinstance(key, list):
            self._check(key)
            return self._with({name: self._columns[name] for name in key})
        if isinstance(key, slice):
            refuse(f"[{key}]", reason="rows have no order")
        return self._series(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._columns = {**self._columns, key: self._column_of(value)}

    def _column_of(self, value: Any) -> Column:
        value = self._expression(value)
        if isinstance(value, (list, tuple, dict)):
            refuse("assign", reason=f"expected a series of the frame or a constant, got {value!r:.60}")
        return value if isinstance(value, Column) else pandas_functions.constant(value)

    def filter(self, items: Any = None, like: str | None = None, regex: str | None = None, axis: Any = None) -> Any:
        """Return the frame with some of its columns: of these names, with a text in their names, or by a pattern."""
        if axis not in (None, 1, "columns"):
            refuse(f"filter(axis={axis!r})", reason="filter rows by a mask")
        if sum(one is not None for one in (items, like, regex)) != 1:
            raise TypeError("filter: expected one of items, like and regex")
        if items is not None:
            return self[[name for name in items if name in self._columns]]
        pattern = re.compile(re.escape(like) if like is not None else regex or "")
        return self[[name for name in self._columns if pattern.search(name)]]

    def assign(self, **columns: Any) -> DeferredDataFrame:
        """Return the frame with more columns: series, constants, or functions of the frame."""
        frame = self._with(dict(self._columns))
        for name, value in columns.items():
            frame[name] = value(frame) if callable(value) else value
        return frame

    def drop(self, labels: Any = None, axis: Any = 0, columns: Any = None, **arguments: Any) -> DeferredDataFrame:
        """Return the frame without columns."""
        refuse_arguments("drop", arguments, errors="raise", inplace=False)
        if labels is not None and axis not in (1, "columns"):
            refuse("drop(labels, axis=0)", reason="drop columns=, or filter rows by a mask")
        dropped = columns if columns is not None else labels
        dropped = [dropped] if isinstance(dropped, str) else list(dropped)
        self._check(dropped)
        return self._with({name: column for name, column in self._columns.items() if name not in dropped})

    def rename(self, columns: Any = None, **arguments: Any) -> DeferredDataFrame:
        """Return the frame with other names for columns, by a dict or a function."""
        refuse_arguments("rename", arguments, inplace=False, errors="ignore", copy=True)
        new = {name: columns(name) if callable(columns) else (columns or {}).get(name, name) for name in self._columns}
        if len(set(new.values())) < len(new):
            raise ValueError(f"two columns would have one name: {', '.join(map(str, new.values()))}")
        return self._with({new[name]: column for name, column in self._columns.items()})

    def fillna(self, value: Any, **arguments: Any) -> DeferredDataFrame:
        """Return the frame with values in the place of None and NaN; by column for a dict."""
        refuse_arguments("fillna", arguments, inplace=False)
        values = value if isinstance(value, dict) else dict.fromkeys(self._columns, value)
        filled = {name: self._series(name).fillna(values[name])._column for name in self._columns if name in values}
        return self._with({**self._columns, **filled})

    def astype(self, dtype: Any, **arguments: Any) -> DeferredDataFrame:
        """Return the frame with columns of other types; by column for a dict."""
        types = dtype if isinstance(dtype, dict) else dict.fromkeys(self._columns, dtype)
        self._check(types)
        cast = {name: self._series(name).astype(kind, **arguments)._column for name, kind in types.items()}
        return self._with({**self._columns, **cast})

    def dropna(self, subset: Any = None, **arguments: Any) -> DeferredDataFrame:
        """Return the rows without None and NaN, in some columns or in any."""
        refuse_arguments("dropna", arguments, axis=0, how="any", inplace=False)
        kept: Any = self
        for name in [subset] if isinstance(subset, str) else subset or list(self._columns):
            kept = kept[kept[name].notna()]
        return kept  # type: ignore[no-any-return]

    def set_index(self, keys: Any, **arguments: Any) -> DeferredDataFrame:
        """Return the frame with columns as its index."""
        refuse_arguments("set_index", arguments, drop=True, append=False, inplace=False)
        names = [keys] if isinstance(keys, str) else list(keys)
        self._check(names)
        columns = {name: column for name, column in self._columns.items() if name not in names}
        return DeferredDataFrame(self._pcoll, {name: self._columns[name] for name in names}, columns)

    def reset_index(self, drop: bool = False, **arguments: Any) -> DeferredDataFrame:
        """Return the frame with the index as columns, or without it."""
        refuse_arguments("reset_index", arguments, inplace=False)
        return DeferredDataFrame(self._pcoll, {}, dict(self._columns) if drop else self._all())

    def groupby(self, by: Any = None, as_index: bool = True, dropna: bool = True, **arguments: Any) -> DeferredGroupBy:
        """Return the groups of rows with equal values of one or several columns."""
        refuse_arguments("groupby", arguments, sort=arguments.get("sort"), observed=arguments.get("observed"))
        names = [by] if isinstance(by, str) else by
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            refuse(f"groupby({by!r:.60})", reason="expected the name of a column, or a list of them")
        columns = {**self._index, **self._columns}
        if unknown := [name for name in names if name not in columns]:
            self._check(unknown)
        keys = {name: columns[name] for name in names}
        return DeferredGroupBy(self._pcoll, self._columns, type(self), keys, as_index, dropna)

    def merge(
        self,
        right: DeferredDataFrame | DeferredSeries,
        how: str = "inner",
        on: Any = None,
        left_on: Any = None,
        right_on: Any = None,
        left_index: bool = False,
        right_index: bool = False,
        sort: bool = False,
        suffixes: tuple[str, str] = ("_x", "_y"),
        **arguments: Any,
    ) -> DeferredDataFrame:
        """Return the rows of a join on columns, or on columns of one side and the index of the other.

        The result has no index.  A series is a frame of its one column.
        """
        refuse_arguments("merge", {"sort": sort, **arguments}, sort=False, copy=True, indicator=False)
        if isinstance(right, DeferredSeries) and right.name is not None:
            right = right.to_frame()
        if not isinstance(right, DeferredDataFrame) or how not in HOWS:
            refuse(
                f"merge({right!r:.30}, how={how!r})", reason=f"expected a deferred frame, and how= of {', '.join(HOWS)}"
            )
        if left_index and right_index:
            refuse("merge(left_index=True, right_index=True)", reason="give columns of one side: left_on= or right_on=")
        by_index = left_index or right_index
        if on is None and left_on is None and not by_index:
            on = [name for name in self._columns if name in right._columns]
        of_left = self._index_of_side("left") if left_index else _names(left_on or on)
        of_right = right._index_of_side("right") if right_index else _names(right_on or on)
        if not of_left or len(of_left) != len(of_right):
            raise ValueError(f"merge: expected keys of both sides, got {of_left} and {of_right}")
        if not left_index:
            self._check(of_left)
        if not right_index:
            right._check(of_right)
        shared = {own for own, other in zip(of_left, of_right) if own == other and not by_index}
        # The columns with the keys of rows of both sides, with their names on the left side.
        own_keys = {own: own for own in (of_left if right_index else shared)}
        keys = {"left": own_keys, "right": dict(zip(of_right, of_left)) if left_index else {}}
        fields = []
        for side, frame, other, suffix in (("left", self, right, suffixes[0]), ("right", right, self, suffixes[1])):
            for name in frame._columns:
                if name in shared and side == "right":
                    continue
                shown = name + suffix if name in other._columns and name not in shared else name
                key = keys[side].get(name)
                fields.append((shown, side, name) if key is None else (shown, BOTH, key))
        label = label_of(self._pcoll, "merge")
        sides = {
            "left": projected(self._pcoll, self._all() if left_index else self._columns, f"{label}/left"),
            "right": projected(right._pcoll, right._all() if right_index else right._columns, f"{label}/right"),
        }
        return frame_of(joined(sides, {"left": of_left, "right": of_right}, fields, how, label), [f[0] for f in fields])

    def _index_of_side(self, side: str) -> list[str]:
        """Return the names of the index.  Raises `WontImplementError` if it is unknown, or has a column's name."""
        names = list(self._index)
        if not names or not self._columns.keys().isdisjoint(names):
            refuse(
                f"merge({side}_index=True)",
                reason=f"expected a {side} frame with an index, which set_index makes, whose names no column has",
            )
        return names

    def nlargest(self, n: int, columns: Any, keep: str = "first") -> DeferredDataFrame:
        """Return the n rows of each window with the greatest values of a column, with `keep="any"` among equal ones."""
        return self._extreme("nlargest", n, columns, keep, reverse=False)

    def nsmallest(self, n: int, columns: Any, keep: str = "first") -> DeferredDataFrame:
        """Return the n rows of each window with the least values of a column, with `keep="any"` among equal ones."""
        return self._extreme("nsmallest", n, columns, keep, reverse=True)

    def _extreme(self, name: str, n: int, columns: Any, keep: str, reverse: bool) -> DeferredDataFrame:
        if keep != "any":
            refuse(f"{name}(keep={keep!r})", reason='rows have no order; give keep="any"')
        names = [columns] if isinstance(columns, str) else list(columns)
        kept = self.dropna(subset=names)
        everything, label = self._all(), label_of(self._pcoll, name)
        rows = projected(kept._pcoll, everything, f"{label}/Rows")
        key = lambda row: tuple(getattr(row, name) for name in names)  # noqa: E731
        best = rows | label >> Top.Of(n, key=key, reverse=reverse).without_defaults() | f"{label}/Each" >> FlatMap(list)
        best.hint = rows.hint
        return frame_of(best, list(self._columns), list(self._index))

    def to_csv(self, path: Any, index: bool = True, **arguments: Any) -> Any:
        """Write the frame as CSV; with the index first, unless `index=False`."""
        from ..io import WriteToCsv

        refuse_arguments("to_csv", arguments, header=arguments.get("header"), sep=arguments.get("sep"))
        options = {"delimiter": arguments["sep"]} if "sep" in arguments else {}
        writing = WriteToCsv(path, header=arguments.get("header", True), **options)
        return self._written("to_csv", index) | label_of(self._pcoll, "to_csv") >> writing

    def to_parquet(self, path: Any, index: bool | None = None, **arguments: Any) -> Any:
        """Write the frame as Parquet; with the index first, unless `index=False`."""
        from ..io import WriteToParquet

        refuse_arguments("to_parquet", arguments)
        return self._written("to_parquet", bool(self._index) if index is None else index) | label_of(
            self._pcoll, "to_parquet"
        ) >> WriteToParquet(path)

    def _written(self, operation: str, index: bool) -> PCollection[Any]:
        if index and not self._index:
            refuse(f"{operation}(index=True)", reason="the frame has no index; give index=False")
        return projected(
            self._pcoll, self._all() if index else self._columns, label_of(self._pcoll, f"{operation}/Rows")
        )


class _Loc:
    def __init__(self, frame: DeferredDataFrame) -> None:
        self._frame = frame

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, DeferredSeries):
            frame = self._frame[rows]
        elif rows == slice(None):
            frame = self._frame
        else:
            refuse(f"loc[{rows!r:.40}]", reason="expected a mask")
        return frame if columns == slice(None) else frame[columns]


def _filtered(frame: DeferredFrame, mask: Any) -> PCollection[Any]:
    """Return the rows for which a series is true."""
    if not isinstance(mask, DeferredSeries):
        refuse(f"[{mask!r:.40}]", reason="expected a column, a list of columns, or a mask")
    return frame._pcoll | label_of(frame._pcoll, "filter") >> Filter(frame._expression(mask))


def _names(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or [])


def frame_of(pcoll: PCollection[Any], columns: Iterable[str], index: Iterable[str] = ()) -> DeferredDataFrame:
    """Return the frame of a PCollection's fields."""
    of_fields = [{name: field_of(name) for name in names} for names in (index, columns)]
    return DeferredDataFrame(pcoll, *of_fields)


def parts_of(frame: DeferredFrame, include_indexes: bool = False) -> tuple[PCollection[Any], dict[str, Column]]:
    """Return the PCollection of a frame, and its columns by name; a series is one column."""
    if isinstance(frame, DeferredDataFrame):
        return frame._pcoll, frame._all() if include_indexes else frame._columns
    assert isinstance(frame, DeferredSeries)
    return frame._pcoll, {str(frame.name): frame._column}


def index_of(frame: DeferredFrame) -> tuple[str, ...]:
    """Return the names of the levels of a frame's index."""
    return tuple(frame._index)
