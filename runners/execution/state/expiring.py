"""State that expires: columns whose values are kept for a time after they were written.

A separate column stores the time at which each key's value expires.  Snapshots, spilling and restores treat it as any
other state.  Each call first removes the value of its key if that has expired, so results don't depend on when other
expired values are removed.  To remove those of keys that have no more elements, keys are indexed by the range of time
in which they expire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from ....sdk.userstate.state_ttl import StateTtl
from ....sdk.userstate.timer_spec import TimeDomain
from .columns import ABSENT, C, Column, ColumnOwner

# What follows a state's name in the name of the column with its times.  Names that users give don't have such an end.
# After a change of the time domain the former times mean nothing.
_EXPIRES = {TimeDomain.WATERMARK: "\0expires", TimeDomain.REAL_TIME: "\0expires by the clock"}

# The ranges of time that the keys of a state are in: so much of the time to live is the longest that a value stays
# after it has expired.
_RANGES = 16


def expiry_column(name: str, ttl: StateTtl) -> str:
    """Return the name of the column that has the times of a state.

    >>> name = expiry_column("last", StateTtl(60))
    >>> name, expiring_state(name), expiring_state("last")
    ('last\\x00expires', 'last', None)
    """
    return name + _EXPIRES[ttl.time_domain]


def expiring_state(name: str) -> str | None:
    """Return the name of the state that a column has the times of; None for another column's name."""
    state, _, end = name.partition("\0")
    return state if f"\0{end}" in _EXPIRES.values() else None


class ExpiryTimes(Column):
    """The times at which the values of a state expire, in microseconds, by key.

    Args:
      state, namespace, name: see `Column`.
      ttl: how long values are kept.
    """

    __slots__ = ("_ranges", "_width")

    def __init__(self, state: ColumnOwner, namespace: Any, name: str, ttl: StateTtl) -> None:
        super().__init__(state, namespace, name)
        self._width = _width_of(ttl)
        # By the number of a range of time, the keys that expire in it.
        self._ranges: dict[int, dict[Any, None]] = {}

    @staticmethod
    def end_of_range(micros: int, ttl: StateTtl) -> int:
        """Return the end of the range of time that a time is in."""
        width = _width_of(ttl)
        return (micros // width + 1) * width

    def put(self, key: Any, value: Any) -> None:
        before, number = self.values.get(key), value // self._width
        if before is not None and before // self._width != number:
            self._leave(key, before)
        self._add(key, number)
        super().put(key, value)

    def remove(self, key: Any) -> None:
        if (before := self.values.get(key)) is not None:
            self._leave(key, before)
            super().remove(key)

    def take(self, keys: Sequence[Any]) -> list[Any]:
        taken = super().take(keys)
        for key, micros in zip(keys, taken):
            if micros is not ABSENT:
                self._leave(key, micros)
        return taken

    def load(self, key: Any, value: Any) -> None:
        self._add(key, value // self._width)
        super().load(key, value)

    def _leave(self, key: Any, micros: int) -> None:
        number = micros // self._width
        own = self._ranges.get(number)
        if own is not None:
            own.pop(key, None)
            if not own:
                del self._ranges[number]

    def _add(self, key: Any, number: int) -> None:
        own = self._ranges.get(number)
        if own is None:
            own = self._ranges[number] = {}
        own[key] = None

    def find_again(self) -> None:
        """Find the ranges of all keys, after a restore."""
        self._ranges.clear()
        for key, micros in self.values.items():
            self._add(key, micros // self._width)

    def expired(self, now: int, most: int) -> list[Any]:
        """Return keys whose values have expired, at most so many, of ranges of time that are over."""
        found: list[Any] = []
        for number in sorted(number for number in self._ranges if (number + 1) * self._width <= now):
            found += islice(self._ranges[number], most - len(found))
            if len(found) >= most:
                break
        return found


def _width_of(ttl: StateTtl) -> int:
    return max(1, ttl.duration.micros // _RANGES)


class ExpiringColumn(Column):
    """The values of a state that expire.

    Args:
      state, namespace, name: see `Column`.
      ttl: how long they are kept.
      times: when they expire.
    """

    __slots__ = ("_now", "_times", "_ttl")

    def __init__(self, state: ColumnOwner, namespace: Any, name: str, ttl: StateTtl, times: ExpiryTimes) -> None:
        super().__init__(state, namespace, name)
        self._ttl = ttl
        self._times = times
        self._now = 0
        # Every write has to be seen.
        self.is_tracked = True

    def begin_call(self, key: Any, micros: int) -> None:
        """Note the time of a call, before it, and remove the key's value if that has expired.

        Args:
          micros: the event time of the call.
        """
        now = self._now = self._at(micros)
        expires = self._times.values.get(key)
        if expires is not None:
            if expires <= now:
                self.remove(key)
            elif self._ttl.refreshed_by_reads:
                self._refresh(key)

    def _at(self, micros: int) -> int:
        return micros if self._ttl.time_domain is TimeDomain.WATERMARK else self._state.processing_time

    def _refresh(self, key: Any) -> None:
        self._times.put(key, self._now + self._ttl.duration.micros)

    def touch(self, key: Any) -> None:
        if self._state.tracking:
            self.note(key)
        self._refresh(key)

    def changing(self, key: Any, make: Callable[[], C]) -> C:
        if self._state.tracking:
            return super().changing(key, make)
        container: C | None = self.values.get(key)
        if container is None:
            container = self.values[key] = make()
        self._refresh(key)
        return container

    def remove(self, key: Any) -> None:
        if key in self.values:
            del self.values[key]
            if self._state.tracking:
                self.note(key)
        self._times.remove(key)

    def drop_expired(self, watermark: int, most: int) -> int:
        """Remove values that have expired, at most so many; return how many there were."""
        found = self._times.expired(self._at(watermark), most)
        for key in found:
            self.remove(key)
        return len(found)
