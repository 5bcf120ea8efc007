"""State that expires: columns whose values are kept for a time after they were written.

A separate column stores the time at which each key's value expires.  Snapshots, spilling and restores treat it as any
other state.  Each call first removes the value of its key if that has expired, so results don't depend on when other
expired values are removed.  To remove those of keys that have no more elements, keys are indexed by the range of time
in which they expire.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from ....sdk.userstate.state_ttl import StateTtl
from ....sdk.userstate.timer_spec import TimeDomain
from .columns import C, Column, ColumnOwner

# What follows a state's name in the name of the column with its times.  Names that users give don't have such an end.
_EXPIRES = "\0expires"

# The ranges of time that the keys of a state are in: so much of the time to live is the longest that a value stays
# after it has expired.
_RANGES = 16


def times_of(name: str) -> str:
    """Return the name of the column that has the times of a state.

    >>> times_of("last"), state_of_times(times_of("last")), state_of_times("last")
    ('last\\x00expires', 'last', None)
    """
    return name + _EXPIRES


def state_of_times(name: str) -> str | None:
    """Return the name of the state that a column has the times of; None for another column's name."""
    return name.removesuffix(_EXPIRES) if name.endswith(_EXPIRES) else None


class Times(Column):
    """The times at which the values of a state expire, in microseconds, by key.

    Args:
      state, namespace, name: see `Column`.
      ttl: how long values are kept.
    """

    __slots__ = ("_ranges", "_width")

    def __init__(self, state: ColumnOwner, namespace: Any, name: str, ttl: StateTtl) -> None:
        super().__init__(state, namespace, name)
        self._width = _width_of(ttl)
        # By the number of a range of time, the keys that expire in it.  Some of them may have another time by now.
        self._ranges: dict[int, dict[Any, None]] = {}

    @staticmethod
    def over(micros: int, ttl: StateTtl) -> int:
        """Return the end of the range of time that a time is in."""
        width = _width_of(ttl)
        return (micros // width + 1) * width

    def put(self, key: Any, value: Any) -> None:
        before, number = self.values.get(key), value // self._width
        if before is not None and before // self._width != number:
            self._ranges.get(before // self._width, {}).pop(key, None)
        self._add(key, number)
        super().put(key, value)

    def load(self, key: Any, value: Any) -> None:
        self._add(key, value // self._width)
        super().load(key, value)

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
            own = self._ranges[number]
            for key in list(islice(own, most - len(found))):
                del own[key]
                if (micros := self.values.get(key)) is not None and micros <= now:
                    found.append(key)
            if own:
                break
            del self._ranges[number]
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

    def __init__(self, state: ColumnOwner, namespace: Any, name: str, ttl: StateTtl, times: Times) -> None:
        super().__init__(state, namespace, name)
        self._ttl = ttl
        self._times = times
        self._now = 0
        # Every write has to be seen.
        self.is_tracked = True

    def arrive(self, key: Any, micros: int) -> None:
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
        if self.values.pop(key, None) is not None and self._state.tracking:
            self.note(key)
        self._times.remove(key)

    def drop_expired(self, watermark: int, most: int) -> None:
        """Remove values that have expired, at most so many."""
        for key in self._times.expired(self._at(watermark), most):
            self.remove(key)
