"""PrefetchingReader: the base class of readers whose client fetches in threads of its own."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, TypeVar

from ...sdk.sources.event_time_reader import EventTimeReader, EventTimes
from ...windowing.timestamp import Timestamp

T = TypeVar("T")

# How long a micro-batch waits for elements that the server has, in seconds, before it is planned without them.
_FETCHED_WITHIN = 10.0


class PrefetchingReader(EventTimeReader[T]):
    """A reader at positions that are whole numbers.

    A poll returns what has been fetched.  While a micro-batch is planned, it waits for what the server has.
    """

    def __init__(self, times: EventTimes) -> None:
        super().__init__(times)
        # While a micro-batch is planned: the position up to which elements are waited for, and until when.
        self._goal = 0
        self._until = 0.0

    @abstractmethod
    def available(self) -> int:
        """Return the position after the last element that the server has."""

    def is_awaited(self, position: int) -> bool:
        """Return True if an element at this position is waited for, as long as there is time."""
        return position < self._goal and time.monotonic() <= self._until

    def admit(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> Any:
        self._goal, self._until = self.available(), time.monotonic() + _FETCHED_WITHIN
        try:
            return super().admit(max_elements, max_bytes, now)
        finally:
            self._goal = 0
