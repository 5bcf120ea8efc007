"""RuntimeTimer: a timer as an argument of a DoFn's method."""

from __future__ import annotations

from typing import Any, Protocol

from ...windowing.duration import DurationTypes, micros_of_span
from ...windowing.timestamp import Timestamp, TimestampTypes


class TimerSetter(Protocol):
    """Setter of the timers of one key and window."""

    def set_timer(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set a timer, or set it to another time."""

    def set_timer_relative(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set a timer relative to the current time of its time domain."""

    def clear_timer(self, family: str, tag: str) -> None:
        """Clear a timer."""


class BaseTimer:
    """Base class of timers, under Beam's name."""

    __slots__ = ()


class RuntimeTimer(BaseTimer):
    """The timers of one name, of one key and window: one for each `dynamic_timer_tag`.

    It is valid during the call only.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import TimerSpec, on_timer
    >>> class Latest(beam.DoFn):
    ...     END = TimerSpec("end", beam.TimeDomain.WATERMARK)
    ...     def process(self, pair, end=beam.DoFn.TimerParam(END)):
    ...         end.set(pair[1])
    ...         if pair[1] < 0:
    ...             end.clear()
    ...     @on_timer(END)
    ...     def at_end(self, time=beam.DoFn.TimestampParam):
    ...         yield time
    >>> [("a", 10), ("a", 30), ("b", 20), ("b", -1)] | beam.ParDo(Latest())
    [Timestamp(30)]
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
        """Set the timer to a time, which replaces an earlier one.

        A timer set to a past time fires after the call.  A timer set to a time after the window's expiry fires just
        before the expiry.

        Args:
          timestamp: seconds or a Timestamp, in the timer's time domain.
          dynamic_timer_tag: timers with different tags are independent of each other.
          output_timestamp: the event time of its outputs, which holds back the watermark until it has fired.  The
            default is the time of firing, for a timer at the window's end the window's last instant, or for processing
            time the timestamp of the current element.  Raises `ValueError` if it is before that timestamp, or after the
            end of the window.
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
        """Set the timer to a number of seconds from now.

        Now is the runner's processing time, or, for event time, the timestamp of the current element.  Under
        `TestStream` processing time is the script's, which `Timestamp.now()` doesn't return.
        """
        self._setter.set_timer_relative(
            self._family, dynamic_timer_tag, micros_of_span(duration), _micros(output_timestamp)
        )

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Clear the timer, if it was set."""
        self._setter.clear_timer(self._family, dynamic_timer_tag)


def _micros(timestamp: Any) -> int | None:
    return None if timestamp is None else Timestamp.of(timestamp).micros
