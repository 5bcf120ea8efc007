"""Sessions: periods of activity that end with a gap (Dataflow Model, sections 1.2 and 2.2.2)."""

from __future__ import annotations

from operator import itemgetter

from .duration import DurationTypes
from .overlap import overlapping_runs
from .timestamp_window_fn import TimestampWindowFn, positive_duration
from .window_fn import WindowFn
from .windows import BoundedWindow, IntervalWindow


class Sessions(TimestampWindowFn):
    """Windows from each element to `gap_size` after it, which merge if they overlap and have the same key.

    Windows that only touch don't merge: two elements exactly a gap apart are in two sessions.

    Args:
      gap_size: seconds or Duration without elements after which a session ends.

    Raises `ValueError` if the gap isn't positive.

    >>> from penstock.windowing import Sessions
    >>> Sessions(30).assign_micros(5_000_000)
    ([5.0, 35.0),)
    """

    merges_by_overlap = True

    def __init__(self, gap_size: DurationTypes) -> None:
        self.gap_size = positive_duration("gap_size", gap_size)
        self._gap = self.gap_size.micros

    @property
    def gap_micros(self) -> int:
        """The gap, in microseconds."""
        return self._gap

    def assign_micros(self, micros: int) -> tuple[IntervalWindow, ...]:
        """Return the session of a single element."""
        return (IntervalWindow.of_micros(micros, micros + self._gap),)

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        """Merge each run of overlapping windows."""
        spans = sorted(map(_span, merge_context.windows), key=itemgetter(0, 1))
        for start, end, run in overlapping_runs(spans):
            if len(run) > 1:
                merge_context.merge(run, IntervalWindow.of_micros(start, end))


def _span(window: BoundedWindow) -> tuple[int, int, BoundedWindow]:
    if not isinstance(window, IntervalWindow):
        raise TypeError(f"Sessions can merge IntervalWindows only, got {window!r}")
    return window.start_micros, window.end_micros - window.start_micros, window
