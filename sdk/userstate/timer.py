"""RuntimeTimer: what a timer can be told, by the method that was given it."""

from __future__ import annotations

from typing import Any, Protocol

from ...windowing.duration import DurationTypes, micros_of_span
from ...windowing.timestamp import Timestamp, TimestampTypes


class TimerSetter(Protocol):
    """Who sets the timers of one key and window."""

    def set_timer(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set one, or set it anew."""

    def set_timer_relative(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set one to so much later than it is now, in its time domain."""

    def clear_timer(self, family: str, tag: str) -> None:
        """Have one not fire."""


class BaseTimer:
    """Beam's name for the base of timers."""

    __slots__ = ()


class RuntimeTimer(BaseTimer):
    """The timers of one name, of one key and window: one for each `dynamic_timer_tag`.

    It is good for the one call that it was given to.
    """

    __slots__ = ("_family", "_setter")

    def __init__(self, family: str, setter: TimerSetter) -> None:
        self._family = family
        self._setter = setter

    def set(
        self,
        timestamp: TimestampTypes,
        dynamic_timer_tag: str = "",
        output_timestamp: TimestampTypes | None = None,
    ) -> None:
        """Have it fire at this time, instead of the time that it was set to before.

        A time that has passed already makes it fire as soon as the call is over; one past the
        window's expiry makes it fire just before that.

        Args:
          timestamp: seconds or a Timestamp, of event time or of processing time, as its spec says.
          dynamic_timer_tag: timers with different tags are independent of each other.
          output_timestamp: the event time of what it will put out, which holds the watermark back
            until it has fired.  Left out it is the time at which it fires, for a timer at the window's
            end the window's last instant, or for processing time that of the element which the
            method was called for.  Raises `ValueError` if it is
            before that element's, or after the end of the window.
        """
        self._setter.set_timer(
            self._family, dynamic_timer_tag, Timestamp.of(timestamp).micros, _micros(output_timestamp)
        )

    def set_relative(
        self,
        duration: DurationTypes,
        dynamic_timer_tag: str = "",
        output_timestamp: TimestampTypes | None = None,
    ) -> None:
        """Have it fire so many seconds from now.

        Now is the runner's processing time, and for event time the timestamp of the element that
        the method was called for.  Under `TestStream` processing time is the script's, which
        `Timestamp.now()` doesn't know.
        """
        self._setter.set_timer_relative(
            self._family, dynamic_timer_tag, micros_of_span(duration), _micros(output_timestamp)
        )

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Have it not fire, if it was set."""
        self._setter.clear_timer(self._family, dynamic_timer_tag)


def _micros(timestamp: Any) -> int | None:
    return None if timestamp is None else Timestamp.of(timestamp).micros
