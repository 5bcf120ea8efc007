"""RowChange: an added or removed row of a table; SignedRows and LatestRows: the elements that changes become."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...frozen import frozen
from ...persistence import stored_as
from ...sdk.coders.coder import shortened
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.element_wrappers import Retracted, TaggedOutput
from ...sdk.errors import SourceError
from ...sdk.userstate import ReadModifyWriteStateSpec
from ...windowing.timestamp import Timestamp
from ...windowing.timestamped_value import TimestampedValue


@stored_as("row-change", 1)
@frozen
class RowChange:
    """A row that is added (sign +1) or removed (sign -1).

    Attributes:
      row: a `Row`, or an instance of a declared type.
      micros: its event time; None for that of the element.
      table: the index of the table, if a source reads several.
      missing: names of fields of an added row that were not sent, since they didn't change.
    """

    sign: int
    row: Any
    micros: int | None = None
    table: int = 0
    missing: tuple[str, ...] = ()

    def output(self) -> Any:
        """Return the output of a DoFn for this change."""
        value = self.row if self.micros is None else TimestampedValue(self.row, Timestamp.of_micros(self.micros))
        return value if self.sign > 0 else Retracted(value)


class OfRow:
    """A user's function from a row to its event time, for changes."""

    def __init__(self, timestamp_fn: Callable[[Any], Any]) -> None:
        if not callable(timestamp_fn):
            raise TypeError(f"timestamp_fn must be a function from a row to its event time, got {timestamp_fn!r}")
        self.timestamp_fn = timestamp_fn

    def __call__(self, change: RowChange) -> Any:
        return self.timestamp_fn(change.row)


class SignedRows(DoFn):
    """The rows of changes: additions, and retractions.

    Args:
      tags: the tag of each table's output, if there are several.
    """

    retracts = True

    def __init__(self, tags: tuple[str, ...] = ()) -> None:
        self.tags = tags

    def process(self, change: RowChange) -> Iterator[Any]:
        output = change.output()
        yield TaggedOutput(self.tags[change.table], output) if self.tags else output


class RowsByKey(DoFn):
    """Base class of the rows of changes by key: a key's row is retracted before the next one is added.

    Args:
      made: returns an element for a dict of fields.
      times: returns the event time of an element, in microseconds; None for that of the change.
    """

    retracts = True

    def __init__(self, made: Callable[[dict[str, Any]], Any], times: Callable[[Any], int] | None) -> None:
        self.made = made
        self.times = times

    def outputs(self, change: RowChange, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Iterator[Any]:
        """Yield the outputs of a change, given the fields of the key's row before and after it; None without one."""
        if before == after:
            return
        for sign, fields in ((-1, before), (+1, after)):
            if fields is not None:
                row = self.made(dict(fields))
                yield RowChange(sign, row, change.micros if self.times is None else self.times(row)).output()


class LatestRows(RowsByKey):
    """The rows of changes by key, each of which replaces the key's former row, kept in state.

    Elements are pairs of a key and a `RowChange` whose row is a dict of fields.
    """

    LATEST = ReadModifyWriteStateSpec("latest")

    def process(self, keyed: tuple[Any, RowChange], latest: Any = DoFn.StateParam(LATEST)) -> Iterator[Any]:
        _, change = keyed
        before, after = latest.read(), None
        if change.sign > 0:
            after = change.row
            if change.missing:
                if before is None:
                    names = ", ".join(map(repr, change.missing))
                    raise SourceError(
                        f"expected an earlier row of the key, with the unchanged {names} of {shortened(after)}, found "
                        "none; begin with a snapshot of the table"
                    )
                after = {name: before[name] if name in change.missing else after[name] for name in after}
        if after is None:
            latest.clear()
        elif before != after:
            latest.write(after)
        yield from self.outputs(change, before, after)
