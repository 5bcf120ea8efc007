"""WindowingStrategy: the settings of `WindowInto` as one frozen value."""

from __future__ import annotations

from typing import Any

import attrs

from ..frozen import frozen
from ..triggers import AccumulationMode, DefaultTrigger, Trigger
from ..windowing.duration import Duration, micros_of_span
from ..windowing.global_windows import GlobalWindows
from ..windowing.timestamp_combiner import TimestampCombiner
from ..windowing.window_fn import WindowFn


def lateness_of(allowed_lateness: Any) -> Duration:
    """Return allowed lateness, in seconds or as a Duration, as a Duration."""
    lateness = Duration.of_micros(micros_of_span(allowed_lateness))
    if lateness < 0:
        raise ValueError(f"allowed_lateness must not be negative, got {allowed_lateness!r}")
    return lateness


@frozen
class WindowingStrategy:
    """The windowing of a PCollection, and the time and form of its windows' results.

    Attributes:
      window_fn: assigns windows in event time.
      trigger: decides in processing time when results are emitted.
      accumulation_mode: the relation between the results of a window.
      timestamp_combiner: decides the timestamp of a window's result.
      allowed_lateness: the span by which the watermark may be past a window's end before the window expires.
      emit_unchanged: retracts and repeats, in RETRACTING mode, an on-time or closing pane that equals the pane before
        it.
    """

    window_fn: WindowFn = attrs.field(factory=GlobalWindows)
    trigger: Trigger = attrs.field(factory=DefaultTrigger)
    accumulation_mode: AccumulationMode = AccumulationMode.DISCARDING
    timestamp_combiner: Any = TimestampCombiner.OUTPUT_AT_EOW
    allowed_lateness: Duration = attrs.field(default=Duration(), converter=lateness_of)
    emit_unchanged: bool = False

    def panes_replace(self, is_bounded: bool) -> bool:
        """Return whether a result may replace, and so retract, an earlier result.

        With an unbounded input it may even without allowed lateness: an element that arrives while the watermark is at
        the end of its window is late but kept.  No element arrives after the end of the global window.
        """
        once = isinstance(self.trigger, DefaultTrigger) and self.allowed_lateness == 0
        is_over = is_bounded or isinstance(self.window_fn, GlobalWindows)
        return self.accumulation_mode is AccumulationMode.RETRACTING and not (once and is_over)

    @property
    def windowfn(self) -> Any:
        """Beam's name for `window_fn`."""
        return self.window_fn

    @property
    def triggerfn(self) -> Trigger:
        """Beam's name for `trigger`."""
        return self.trigger

    def is_default(self) -> bool:
        """Return whether this is the windowing of a PCollection before any `WindowInto`."""
        return self == DEFAULT_WINDOWING


DEFAULT_WINDOWING = WindowingStrategy()
