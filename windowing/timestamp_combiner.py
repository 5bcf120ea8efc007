"""TimestampCombiner: the timestamp of a window's result (Dataflow Model, section 2.2, figure 4)."""

from __future__ import annotations

from enum import Enum

from ..persistence import stored_as
from .timestamp import Timestamp
from .window_fn import WindowFn
from .windows import BoundedWindow


@stored_as("timestamp-combiner", 1)
class TimestampCombiner(Enum):
    """The timestamp of a pane, which also holds back the downstream watermark.

    Elements that arrive behind the output watermark don't count.  A pane of such elements has the last instant of its
    window.

    OUTPUT_AT_EOW: the last instant of the window.
    OUTPUT_AT_EARLIEST: the earliest timestamp among the pane's elements.
    OUTPUT_AT_LATEST: the latest timestamp among the pane's elements.
    OUTPUT_AT_EARLIEST_TRANSFORMED: the earliest, after the window function's
      `get_transformed_output_time`.

    >>> import penstock as beam
    >>> from penstock.window import FixedWindows, TimestampCombiner, TimestampedValue
    >>> with beam.Pipeline() as p:
    ...     windows = beam.WindowInto(FixedWindows(60), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    ...     sums = p | beam.Create([TimestampedValue(("a", 1), 7), TimestampedValue(("a", 2), 9)]) | windows
    ...     _ = sums | beam.CombinePerKey(sum) | beam.LogElements(with_timestamp=True, use_epoch_time=True)
    ('a', 3), timestamp=7
    """

    OUTPUT_AT_EOW = 1
    OUTPUT_AT_LATEST = 2
    OUTPUT_AT_EARLIEST = 3
    OUTPUT_AT_EARLIEST_TRANSFORMED = 4


# Combiners that keep the latest of several timestamps; the others keep the earliest.
KEEPING_LATEST = (TimestampCombiner.OUTPUT_AT_LATEST, TimestampCombiner.OUTPUT_AT_EOW)


def for_element(
    combiner: TimestampCombiner, window: BoundedWindow, micros: int, window_fn: WindowFn | None = None
) -> int | None:
    """Return the microseconds to store for an element, or None if the end of the window decides.

    >>> from penstock.windowing import IntervalWindow, TimestampCombiner
    >>> for_element(TimestampCombiner.OUTPUT_AT_EARLIEST, IntervalWindow(0, 10), 7)
    7
    """
    if combiner is TimestampCombiner.OUTPUT_AT_EOW:
        return None
    if combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED and window_fn is not None:
        return window_fn.get_transformed_output_time(window, Timestamp.of_micros(micros)).micros
    return micros


def combined(combiner: TimestampCombiner, a: int, b: int) -> int:
    """Return the microseconds to store for two elements, or for two merged windows.

    >>> from penstock.windowing import TimestampCombiner
    >>> combined(TimestampCombiner.OUTPUT_AT_LATEST, 3, 7)
    7
    """
    if combiner in KEEPING_LATEST:
        return a if a >= b else b
    return a if a <= b else b


def at_fire(combiner: TimestampCombiner, window: BoundedWindow, held: int | None) -> int:
    """Return the pane's timestamp.  An empty pane has the end of its window.

    >>> from penstock.windowing import IntervalWindow, TimestampCombiner
    >>> at_fire(TimestampCombiner.OUTPUT_AT_EOW, IntervalWindow(0, 10), None)
    9999999
    """
    if held is None or combiner is TimestampCombiner.OUTPUT_AT_EOW:
        return window.max_micros
    return held
