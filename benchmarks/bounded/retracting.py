"""Results that are corrected: (c) and (d) in RETRACTING mode, against loops that keep and correct their own.

A pane every ten seconds of processing time says what has come by then; when more comes, it is
taken back and replaced.  The loops do the same: they remember what they have put out, and put
out the difference.  What is compared is every single change, not only what stands at the end.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from harness.inputs import Event, events
from harness.keeping_sink import KeepingSink
from harness.timing import Ratio, compare

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import SinkSpec
from penstock.testing import TestStream
from penstock.testing.test_stream import ClockMoves, ElementsArrive, WatermarkMoves
from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark

TICK = 10
GAP = 60
# How far the watermark is behind the clock.  Nothing is late.
BEHIND = 900
SECOND = 1_000_000

# A key with its window (from, to), the value, and whether it is put out or taken back.
Change = tuple[tuple[str, int, int], int, int]


class ChangesSink(KeepingSink):
    """Keeps the signs too."""

    spec = SinkSpec(accepts_retractions=True)


@cache
def ticks() -> list[list[Event]]:
    """The events of an hour, those of ten seconds together."""
    occurred = events()
    per_tick = -(-len(occurred) * TICK // 3600)
    return [occurred[i : i + per_tick] for i in range(0, len(occurred), per_tick)]


@cache
def script() -> tuple[Any, ...]:
    """The same as what happens to a pipeline."""
    start = min(seconds for _, seconds, _ in ticks()[0])
    happening: list[Any] = []
    for number, tick in enumerate(ticks(), 1):
        happening += [ElementsArrive(None, Bundle(tick)), ClockMoves(TICK * SECOND)]
        happening += [WatermarkMoves(None, (start + number * TICK - BEHIND) * SECOND)]
    return tuple(happening)


def pipeline(window_fn: Any) -> ChangesSink:
    sink = ChangesSink()
    with beam.Pipeline() as p:
        (
            p
            | TestStream(events=script())
            | beam.WithTimestamps(lambda event: event[1])
            | beam.Map(lambda event: (event[0], event[2]))
            | beam.WindowInto(
                window_fn,
                trigger=AfterWatermark(early=AfterProcessingTime(align_to=TICK)),
                accumulation_mode=AccumulationMode.RETRACTING,
            )
            | beam.CombinePerKey(sum)
            | beam.io.Write(sink)
        )
    return sink


def changes(sink: ChangesSink) -> list[Change]:
    """Return the output in order."""
    return [
        ((key, start // SECOND, end // SECOND), value, sign)
        for bundle in sink.bundles
        for (key, value), _, ((start, end),), _, sign in bundle.rows()
    ]


def sums_by_hand() -> list[Change]:
    sums: dict[tuple[str, int, int], int] = {}
    standing: dict[tuple[str, int, int], int] = {}
    put_out = []
    for tick in ticks():
        touched = {}
        for key, seconds, value in tick:
            start = seconds - seconds % 60
            cell = key, start, start + 60
            sums[cell] = sums.get(cell, 0) + value
            touched[cell] = True
        for cell in touched:
            before = standing.get(cell)
            if before is not None:
                put_out.append((cell, before, -1))
            now = standing[cell] = sums[cell]
            put_out.append((cell, now, 1))
    return put_out


class Session:
    """A session of a key, and what was put out of it or of those that it was made of."""

    __slots__ = ("end", "is_gone", "is_touched", "key", "standing", "start", "total")

    def __init__(self, key: str, start: int, end: int) -> None:
        self.key, self.start, self.end = key, start, end
        self.total = 0
        self.standing: list[tuple[tuple[str, int, int], int]] = []
        self.is_touched = self.is_gone = False


def sessions_by_hand() -> list[Change]:
    # Each key's sessions in order; no two overlap.
    by_key: dict[str, list[Session]] = {}
    put_out = []
    for tick in ticks():
        touched = []
        for key, seconds, value in tick:
            own, end = by_key.setdefault(key, []), seconds + GAP
            # Events come about in order: what they overlap with is near the end.
            last = len(own)
            while last and own[last - 1].start >= end:
                last -= 1
            first = last
            while first and own[first - 1].end > seconds:
                first -= 1
            if first == last:
                session = Session(key, seconds, end)
                own.insert(first, session)
            else:
                session = own[first]
                for other in own[first + 1 : last]:
                    session.end = other.end
                    session.total += other.total
                    session.standing += other.standing
                    other.is_gone = True
                del own[first + 1 : last]
                session.start, session.end = min(seconds, session.start), max(end, session.end)
            session.total += value
            if not session.is_touched:
                session.is_touched = True
                touched.append(session)
        for session in touched:
            if session.is_gone:
                continue
            for cell, total in session.standing:
                put_out.append((cell, total, -1))
            now = (session.key, session.start, session.end), session.total
            session.standing = [now]
            put_out.append((*now, 1))
            session.is_touched = False
    return put_out


def run() -> list[Ratio]:
    script()
    programs = (
        ("(c) retracting, a pane every 10 s", beam.window.FixedWindows(60), sums_by_hand),
        ("(d) retracting, a pane every 10 s", beam.window.Sessions(GAP), sessions_by_hand),
    )
    return [
        compare(name, partial(pipeline, window_fn), by_hand, 3.0, result=changes)
        for name, window_fn, by_hand in programs
    ]
