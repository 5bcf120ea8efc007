"""The running example of the Dataflow paper: ten integers of one key, summed in the ways of its figures 7 to 14.

    penstock draw examples/paper_figures.py --figure=13 -o figure-13.svg

Each integer has the time at which it happened, and arrives later (figure 5).  The watermark is heuristic: the nine is
late.
"""

from __future__ import annotations

import argparse

import penstock as beam
from penstock.testing import TestStream
from penstock.triggers import AccumulationMode, AfterCount, AfterProcessingTime, AfterWatermark, Always, Repeatedly
from penstock.windowing import FixedWindows, GlobalWindows, Sessions, TimestampedValue

# The value, when it happened and when it arrived.
POINTS = [
    (5, "12:00:26", "12:05:19"),
    (7, "12:02:24", "12:05:39"),
    (3, "12:03:39", "12:06:13"),
    (4, "12:03:47", "12:06:39"),
    (3, "12:04:21", "12:06:52"),
    (8, "12:03:06", "12:07:06"),
    (3, "12:06:39", "12:07:19"),
    (9, "12:01:25", "12:08:19"),
    (8, "12:07:26", "12:08:39"),
    (1, "12:07:46", "12:08:52"),
]

# When the watermark advances, and to what.
WATERMARK = [
    ("12:00:00", "12:00:00"),
    ("12:05:50", "12:02:00"),
    ("12:07:30", "12:04:00"),
    ("12:07:40", "12:06:00"),
    ("12:08:56", "12:09:00"),
]

DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode
MINUTE, TWO_MINUTES, DAY = 60, 120, 24 * 60 * 60
EVERY_MINUTE = AfterProcessingTime(align_to=MINUTE)
UNTIL_WATERMARK = AfterWatermark(early=EVERY_MINUTE, late=AfterCount(1))

# By figure: windows, trigger and accumulation mode.
FIGURES = {
    7: (GlobalWindows(), Repeatedly(EVERY_MINUTE), ACCUMULATING),
    8: (GlobalWindows(), Repeatedly(EVERY_MINUTE), DISCARDING),
    9: (GlobalWindows(), Repeatedly(AfterCount(2)), DISCARDING),
    11: (FixedWindows(TWO_MINUTES), Always(), ACCUMULATING),
    12: (FixedWindows(TWO_MINUTES), AfterWatermark(late=AfterCount(1)), ACCUMULATING),
    13: (FixedWindows(TWO_MINUTES), UNTIL_WATERMARK, ACCUMULATING),
    14: (Sessions(MINUTE), UNTIL_WATERMARK, RETRACTING),
}


def seconds(clock: str) -> int:
    """Return a time of the day, such as "12:03:39", in seconds."""
    hours, minutes, rest = map(int, clock.split(":"))
    return (hours * 60 + minutes) * 60 + rest


def arrivals(in_batches: bool) -> TestStream:
    """Return the script: the arrivals, the watermark, and a minute that passes.

    In batches (figure 11), what arrives within a minute is read at its end, and the watermark follows the newest of it.
    """
    events: list[tuple[int, str, object]] = [(seconds(f"12:{minute:02}:00"), "time", None) for minute in range(5, 11)]
    if in_batches:
        for minute in range(5, 9):
            end = seconds(f"12:{minute + 1:02}:00")
            batch = [point for point in POINTS if point[2].startswith(f"12:{minute:02}")]
            events.append((end, "elements", batch))
            events.append((end, "watermark", max(seconds(happened) for _, happened, _ in batch)))
    else:
        events += [(seconds(point[2]), "elements", [point]) for point in POINTS]
        events += [(seconds(at), "watermark", seconds(to)) for at, to in WATERMARK]
    stream, now = TestStream(), 0
    for at, kind, what in sorted(events, key=lambda event: event[0]):
        stream.advance_processing_time(at - now)
        now = at
        if kind == "elements":
            stream.add_elements([TimestampedValue(("team", v), seconds(happened)) for v, happened, _ in what])  # type: ignore[attr-defined]
        elif kind == "watermark":
            stream.advance_watermark_to(what)
    return stream


def main() -> None:
    """Run the pipeline of one figure, and print its panes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figure", type=int, choices=sorted(FIGURES), default=13)
    arguments, _ = parser.parse_known_args()
    windows, trigger, mode = FIGURES[arguments.figure]
    windowing = beam.WindowInto(windows, trigger=trigger, accumulation_mode=mode, allowed_lateness=DAY)
    with beam.Pipeline() as p:
        scores = p | arrivals(in_batches=arguments.figure == 11) | windowing
        scores | "Sum" >> beam.CombinePerKey(sum) | beam.Map(print)


if __name__ == "__main__":
    main()
