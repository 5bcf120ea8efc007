"""Recorded outputs of non-deterministic DoFns, so that exactly those can be retracted.

A retraction runs through a ParDo as its element did, and its outputs carry the sign.  A DoFn declared `deterministic =
False` would return other outputs.  So the outputs of each element are recorded, and looked up by the element and its
windows.  Of equal elements the one with the retraction's timestamp is retracted; if there is none, such as behind a
table whose rows have the times of their changes, the last one.

The outputs of an element are forgotten when the watermark has passed the last one at which it can be retracted.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ....sdk.elements.defensive_copy import defensive_copies
from ....sdk.errors import PenstockError
from ....windowing.timestamp import MAX_MICROS
from ....windowing.windows import lifetime_of
from ..change_tracking import ChangeTracker
from ..user_errors import shortened
from ..windows.retractions import find_alike

# Below it are the numbers of records of former versions.
_FIRST = 1 << 60


class MemoryChanges(NamedTuple):
    """The recorded outputs added and removed since a snapshot, as plain data that can be pickled.

    Each record has a number, because an element may not equal itself after it has been pickled.

    Attributes:
      is_all: True if these are all records.
      removed: the numbers of retracted records.
      added: by number, the input and its outputs.
    """

    is_all: bool
    removed: list[int]
    added: dict[int, tuple[Any, list[Any]]]


class OutputMemory:
    """The recorded outputs of one ParDo, by input.

    Args:
      retractable_for: how long after the end of its window an element may be retracted, in microseconds; None without a
        limit.

    >>> memory = OutputMemory()
    >>> memory(1, "a", 0, (), lambda: [1, 2]), memory(-1, "a", 0, (), lambda: [3])
    ([1, 2], [1, 2])
    >>> memory(1, "a", 0, (), lambda: [1]), memory(1, "a", 5, (), lambda: [2]), memory(-1, "a", 0, (), list)
    ([1], [2], [1])
    >>> memory(-1, "a", 7, (), list)
    [2]
    """

    def __init__(self, retractable_for: int | None = None) -> None:
        self._retractable_for = retractable_for
        # By windows and input, the numbers of its records.
        self._numbers: dict[Any, dict[Any, list[int]]] = {}
        # Of these windows, the watermark from which on their elements can't be retracted; if there is one.
        self._expiries: list[tuple[int, int, Any]] = []
        self._kept: dict[int, tuple[Any, list[Any]]] = {}
        # Subtasks that restore the records of others have a number once only.
        self._next = _FIRST + secrets.randbits(60)
        # Changes of record numbers; None before the first snapshot.
        self._since: ChangeTracker[int] | None = None

    def __len__(self) -> int:
        """Return the number of elements with recorded outputs."""
        return len(self._kept)

    def __call__(
        self, sign: int, value: Any, micros: int, windows: Any, produce: Callable[[], Iterable[Any] | None]
    ) -> list[Any]:
        """Return the outputs of an element; of a retracted one, its recorded outputs."""
        key: Any = (value, micros, windows)
        try:
            hash(key)
        except TypeError:
            # Few elements can be retracted, and can't be hashed.
            from ..serialization.column_codec import encode_column

            key = (encode_column([value]), micros, windows)
        if sign > 0:
            outputs = list(produce() or ())
            self._keep(key, defensive_copies(outputs))
            return outputs
        of_windows = self._numbers.get(windows, {})
        found = key[0]
        numbers = of_windows.get(found)
        if not numbers:
            candidates = list(of_windows)
            index = find_alike(value, candidates)
            if index is not None:
                found = candidates[index]
                numbers = of_windows[found]
        if not numbers:
            raise PenstockError(f"the element {shortened(value)} is retracted, but was never received")
        number = next((n for n in reversed(numbers) if self._kept[n][0][1] == micros), numbers[-1])
        numbers.remove(number)
        if not numbers:
            del of_windows[found]
            if not of_windows and self._retractable_for is None:
                del self._numbers[windows]
        return self._remove(number)

    def _keep(self, key: Any, outputs: list[Any]) -> None:
        self._put(self._next, key, outputs)
        self._next += 1

    def _put(self, number: int, key: Any, outputs: list[Any]) -> None:
        value, _, windows = key
        of_windows = self._numbers.get(windows)
        if of_windows is None:
            of_windows = self._numbers[windows] = {}
            if self._retractable_for is not None:
                expiries = [lifetime_of(window, self._retractable_for)[1] for window in windows]
                heappush(self._expiries, (max(expiries, default=MAX_MICROS), number, windows))
        of_windows.setdefault(value, []).append(number)
        self._kept[number] = key, outputs
        if self._since is not None:
            self._since.add(number)

    def _remove(self, number: int) -> list[Any]:
        if self._since is not None:
            self._since.remove(number)
        return self._kept.pop(number)[1]

    def expire(self, watermark: int) -> None:
        """Forget the outputs of elements that can't be retracted any more at this watermark, in microseconds."""
        while self._expiries and self._expiries[0][0] <= watermark:
            _, _, windows = heappop(self._expiries)
            for numbers in self._numbers.pop(windows).values():
                for number in numbers:
                    self._remove(number)

    # Snapshots

    def snapshot(self) -> MemoryChanges:
        """Return all records, to be written before anything is processed."""
        self.forget_changes()
        return MemoryChanges(True, [], self._kept)

    def changes(self) -> MemoryChanges:
        """Return the changes since the last snapshot or changes."""
        since = self._since
        if since is None:
            return self.snapshot()
        self.forget_changes()
        return MemoryChanges(False, list(since.removed), {number: self._kept[number] for number in since.added})

    @property
    def number_changed(self) -> int:
        """Return the number of records in the next changes."""
        return len(self) if self._since is None else len(self._since)

    def forget_changes(self) -> list[dict[Any, None]]:
        """Start a new log of changes, because a forked child writes the snapshot; return the former log."""
        since, self._since = self._since, ChangeTracker()
        return [] if since is None else [since.added, since.removed]

    def restore(self, parts: Sequence[Iterable[MemoryChanges]]) -> None:
        """Restore the snapshots of several subtasks, each with the changes after it.

        Records of several are one subtask's now, so the next changes are all records.
        """
        merged: dict[int, tuple[Any, list[Any]]] = {}
        for part in parts:
            kept: dict[int, tuple[Any, list[Any]]] = {}
            for is_all, removed, added in part:
                if is_all:
                    kept.clear()
                for number in removed:
                    del kept[number]
                kept.update(added)
            for number, record in kept.items():
                if number < _FIRST and len(parts) > 1:
                    # In checkpoints of former versions each subtask counts from 0.
                    number, self._next = self._next, self._next + 1
                merged[number] = record
        for number, record in merged.items():
            self._put(number, *record)
        if len(parts) == 1:
            self.forget_changes()
