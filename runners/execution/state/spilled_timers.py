"""Timers that are spilled to disk, and loaded when they are due or an element of their key comes.

An entry has the timers of a key in a window.  Those of a key and time fire in the order in which they were set; those
of different keys do so unless some of them were on disk.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ....triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ....windowing import BoundedWindow
from ..spilling.memory import memory_of
from ..spilling.rocksdb import Times
from ..spilling.spilled_step import NumberedWindows, SpillContext
from .spilled_keys import PLACE, SpilledKeys, unpacked
from .timers import EVENT_TIME, PROCESSING_TIME, TimerChange, Timers

# What is in an entry of a timer: its family and tag, whether it fires by event time, its time, the time of its outputs,
# and its pane, or None for the unknown one.
_Plain = tuple[str, str, bool, int, int, PaneInfo | None]

# The memory of a timer: its entry and name, and its places in two heaps.
_TIMER = 500


class SpilledTimers(SpilledKeys[list[_Plain]]):
    """The spilled timers of a stateful ParDo.

    Args:
      timers: those in memory.
    """

    def __init__(self, timers: Timers, context: SpillContext) -> None:
        super().__init__(context)
        self._timers = timers
        timers.spilled = self

    def _number_in_memory(self) -> int:
        return len(self._timers)

    def _has_any(self, window: BoundedWindow, key: Any) -> bool:
        return bool(self._timers.of_key(window, key))

    def _memory_of(self, entry: tuple[BoundedWindow, Any]) -> int:
        return 2 * PLACE + memory_of(entry[1]) + _TIMER * len(self._timers.of_key(*entry))

    def _take_out(self, window: BoundedWindow, keys: list[Any], numbers: list[int]) -> list[list[_Plain]]:
        # That they are gone from memory is a change, which the next snapshot has.
        return [list(map(_plain, self._timers.take_out(window, key))) for key in keys]

    def spill(self, share: float) -> None:
        super().spill(share)
        self._timers.forget_unset()

    def _put_back(self, window: BoundedWindow, key: Any, content: list[_Plain]) -> int:
        self._timers.apply(_timer_of(key, window, plain) for plain in content)
        return self._snapshot

    def _times_of(self, content: list[_Plain]) -> Times:
        fires: list[list[int]] = [[], []]
        for _, _, is_by_event, fire, _, _ in content:
            fires[is_by_event].append(fire)
        clock, event = (min(times, default=None) for times in fires)
        return event, clock, min(output for *_, output, _ in content)

    def _restore(self, records: list[Any]) -> None:
        self._timers.restore(records)

    @staticmethod
    def _place_of(record: Any) -> tuple[BoundedWindow, Any]:
        key, window, *_ = record
        return window, key

    # Snapshots

    def removed(self) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
        """Return no removals: the changes of timers have those that were spilled."""
        return iter(())

    @staticmethod
    def _records_in(entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows) -> list[tuple[Any, ...]]:
        return records_in(entries, windows)


def records_in(
    entries: Iterable[tuple[bytes, bytes]], windows: NumberedWindows, loads: Callable[[Any], Any] = pickle.loads
) -> list[tuple[Any, ...]]:
    """Return the changes that set the timers of spilled entries, of which each has an id and data.

    Args:
      loads: reads a pickle.
    """
    found = (unpacked(id, data, windows, loads) for id, data in entries)
    return [tuple(_timer_of(key, window, plain)) for window, key, content in found for plain in content]


def _plain(timer: TimerChange) -> _Plain:
    _, _, family, tag, fire, output, pane, domain = timer
    assert fire is not None
    return family, tag, domain is EVENT_TIME, fire, output, None if pane == PANE_INFO_UNKNOWN else pane


def _timer_of(key: Any, window: BoundedWindow, plain: _Plain) -> TimerChange:
    family, tag, is_by_event, fire, output, pane = plain
    domain = EVENT_TIME if is_by_event else PROCESSING_TIME
    return TimerChange(key, window, family, tag, fire, output, pane or PANE_INFO_UNKNOWN, domain)
