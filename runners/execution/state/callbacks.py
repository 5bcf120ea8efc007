"""The callbacks of a stateful DoFn: `KeyedTimers` sets the timers of one key and window during a call."""

from __future__ import annotations

from typing import Any, Protocol

from ....sdk.dofn.signature import Argument
from ....sdk.userstate.timer_spec import TimeDomain
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS, Timestamp
from ....windowing.windows import end_of_window
from .timers import EVENT_TIME, Timer, Timers


def asks_for_timers(arguments: tuple[Argument, ...]) -> bool:
    """Return True if one of the arguments is a timer."""
    return any(a.marker is not None and a.marker.name == "TimerParam" for a in arguments)


class TimerOwner(Protocol):
    """The executor that owns the timers."""

    timers: Timers
    # By the timer's name; and by window, the watermark at which it expires, in microseconds.
    domains: dict[str, TimeDomain]
    expiries: dict[BoundedWindow, int]
    processing_time: int

    def set_timer(self, timer: Timer, domain: TimeDomain) -> None: ...


class KeyedTimers:
    """Sets timers.

    Args:
      owner: the executor that owns them.
      key, window: of the element, or of the timer that has fired.
      now: the event time of the call: the element's timestamp, or the time of the event-time timer that has fired.
      output: the timestamp of the call's outputs; no timer's output may be earlier.
      pane: of the element, or of the one that set the timer.
    """

    __slots__ = ("_key", "_now", "_output", "_owner", "_pane", "_window")

    def __init__(
        self, owner: TimerOwner, key: Any, window: BoundedWindow, now: int, output: int, pane: PaneInfo
    ) -> None:
        self._owner = owner
        self._key = key
        self._window = window
        self._now = now
        self._output = output
        self._pane = pane

    def set_timer(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set a timer, or move it."""
        owner, window = self._owner, self._window
        domain, output = owner.domains[family], self._output
        if domain is EVENT_TIME:
            # The last watermark before the window expires.
            last = owner.expiries[window] - 1
            if micros > last:
                if self._now >= last:
                    # The window is over: a timer that sets itself again ends here.
                    owner.timers.clear(window, self._key, family, tag)
                    return
                micros = last
            # Output at the end of the window has its maximum timestamp, and holds the watermark there.
            at_end = micros == end_of_window(window)
            output = max(window.max_micros if at_end else micros, output)
        if output_micros is not None:
            self._check(family, output_micros)
            output = output_micros
        owner.set_timer(Timer(micros, output, self._key, window, family, tag, self._pane), domain)

    def set_timer_relative(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set a timer relative to the current time of its domain."""
        now = self._now if self._owner.domains[family] is EVENT_TIME else self._owner.processing_time
        self.set_timer(family, tag, min(now + micros, MAX_MICROS), output_micros)

    def clear_timer(self, family: str, tag: str) -> None:
        """Clear a timer."""
        self._owner.timers.clear(self._window, self._key, family, tag)

    def _check(self, family: str, output_micros: int) -> None:
        end = self._window.max_micros
        if not self._output <= output_micros <= end:
            given, least, most = map(Timestamp.of_micros, (output_micros, self._output, end))
            raise ValueError(
                f"the timer {family!r} was given the output timestamp {given}; it must not be before {least}, the "
                f"timestamp of the element or timer that it is set for, nor after {most}, the end of {self._window!r}"
            )
