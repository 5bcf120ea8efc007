"""TableRows: elements as rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SinkError
from ...triggers.pane import PaneInfo
from ...windowing.timestamp import MIN_MICROS
from ...windowing.windows import BoundedWindow
from ..records import as_dict, is_record
from .dialect import SqlDialect

# Names of columns, or names and types: Python types, or names of SQL types.
Columns: TypeAlias = Sequence[str] | Mapping[str, Any]

# The columns of `with_window`.  Times are microseconds since 1970, since databases' types of time differ.
WINDOW_COLUMNS: dict[str, type] = {
    "window_start": int,
    "window_end": int,
    "event_timestamp": int,
    "pane_index": int,
    "pane_timing": str,
}

_TAKEN_AS_THEY_ARE = frozenset({str, int, float, bytes, bool, type(None)})


@frozen
class Change:
    """An addition (sign +1) or retraction (-1) of a row.

    `window` identifies the window.  `order` is greater for a later pane, and compares as text.
    """

    sign: int
    window: str
    order: str
    values: tuple[Any, ...]


@frozen
class TableRows:
    """Conversion of elements to rows of a table.

    Attributes:
      key: the columns that identify a row.
      columns: all written columns, those of the window included, with or without types.
      row: a function from an element to a record, or to the values in the columns' order; None for elements that are
        records or pairs (or, if all columns are the key, tuples).
      with_window: whether the last columns are `WINDOW_COLUMNS`.
      by_time: whether rows are ordered by window and timestamp besides the pane.
      json: the columns of JSON, for which values are written as JSON.  A text is JSON already.

    >>> rows = TableRows(("word",), {"word": str, "count": int})
    >>> sqlite = SqlDialect("sqlite")
    >>> rows.values_of({"count": 2, "word": "to"}, sqlite), rows.values_of(("be", 1), sqlite)
    (('to', 2), ('be', 1))
    """

    key: tuple[str, ...]
    columns: dict[str, Any]
    row: Callable[[Any], Any] | None = None
    with_window: bool = False
    by_time: bool = False
    json: frozenset[str] = frozenset()
    # The columns that elements have values for.
    of_elements: tuple[str, ...] = attrs.field(init=False)

    @of_elements.default
    def _of_elements(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if not (self.with_window and name in WINDOW_COLUMNS))

    def changes(self, bundle: Bundle, dialect: SqlDialect) -> Iterator[Change]:
        """Yield the changes of a bundle: one for each element, or, with `with_window`, for each of its windows.

        Raises `SinkError` for an element that is not a row of this table.
        """
        for value, timestamp, windows, pane, sign in bundle.rows():
            values = self.values_of(value, dialect)
            for window in windows if self.with_window else windows[:1]:
                of_window = _window_values(window, timestamp, pane) if self.with_window else ()
                order = f"{pane.index:010d}"
                if self.by_time:
                    order = f"{window.max_micros - MIN_MICROS:020d}{order}{timestamp - MIN_MICROS:020d}"
                yield Change(sign, repr(window), order, values + of_window)

    def values_of(self, element: Any, dialect: SqlDialect) -> tuple[Any, ...]:
        """Return the values of an element for its columns."""
        names = self.of_elements
        record = self._record(element, names)
        if len(record) != len(names) or any(name not in record for name in names):
            raise SinkError(_different_columns(element, record, names))
        return tuple([self._checked(name, record[name], element, dialect) for name in names])

    def _record(self, element: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
        value = element if self.row is None else self.row(element)
        if is_record(value):
            return as_dict(value)
        if self.row is not None:
            return _named(names, value, "the function `row` returned", element)
        key = tuple(name for name in self.key if name in names)
        rest = tuple(name for name in names if name not in key)
        if type(value) is tuple and not rest:
            return _named(names, value, "the element is", element)
        if type(value) is tuple and len(value) == 2:
            return {**_part(key, value[0], "key", element), **_part(rest, value[1], "value", element)}
        raise SinkError(
            "expected records (dicts, Rows, named tuples, dataclasses) or (key, value) pairs, "
            f"got {shortened(element)}; give a function `row` that makes records of them"
        )

    def _checked(self, name: str, value: Any, element: Any, dialect: SqlDialect) -> Any:
        if type(value) not in _TAKEN_AS_THEY_ARE:
            value = dialect.adapted(value)
        if value is None:
            if name in self.key:
                raise SinkError(f"column {name!r} is part of the key and can't be None, as in {shortened(element)}")
            return None
        kind = self.columns[name]
        if isinstance(kind, type) and not _is_a(value, kind, dialect):
            raise SinkError(
                f"column {name!r} is for {kind.__name__}, got {shortened(value)} of type {type(value).__name__} "
                f"in {shortened(element)}"
            )
        return self._as_json(name, value, element) if name in self.json else value

    def _as_json(self, name: str, value: Any, element: Any) -> Any:
        # Another value is one of the driver, such as psycopg's `Jsonb`.
        if not isinstance(value, (dict, list, tuple, bool, int, float)):
            return value
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            raise SinkError(
                f"column {name!r} is for JSON, got {shortened(value)} in {shortened(element)}: {error}"
            ) from error


def _is_a(value: Any, kind: type, dialect: SqlDialect) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    # A type without values in this dialect, whose values were converted to text.
    return isinstance(value, kind) or (dialect.column_type(kind) == "TEXT" and isinstance(value, str))


def _window_values(window: BoundedWindow, timestamp: int, pane: PaneInfo) -> tuple[Any, ...]:
    start = getattr(window, "start", None)
    return (None if start is None else start.micros, window.end.micros, timestamp, pane.index, pane.timing.name)


def _part(names: tuple[str, ...], value: Any, part: str, element: Any) -> Mapping[str, Any]:
    if is_record(value) and not (len(names) == 1 and isinstance(value, dict) and names[0] not in value):
        return as_dict(value)
    if len(names) == 1:
        return {names[0]: value}
    return _named(names, value, f"the {part} is", element)


def _named(names: tuple[str, ...], value: Any, what: str, element: Any) -> Mapping[str, Any]:
    if not isinstance(value, (tuple, list)) or len(value) != len(names):
        raise SinkError(
            f"expected {len(names)} values, for the columns {_listed(names)}, but {what} {shortened(value)}, "
            f"for {shortened(element)}"
        )
    return dict(zip(names, value))


def _different_columns(element: Any, record: Mapping[str, Any], names: tuple[str, ...]) -> str:
    missing = [name for name in names if name not in record]
    unknown = [name for name in record if name not in names]
    parts = [f"has no {_listed(missing)}"] if missing else []
    parts += [f"has {_listed(unknown)}, which is no column"] if unknown else []
    return (
        f"expected a row with the columns {_listed(names)}, but {shortened(element)} {' and '.join(parts)}; "
        "name the columns to write in `columns`, or make the record by a function `row`"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
