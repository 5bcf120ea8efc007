"""Hypothesis strategies for streams: events and their arrivals, windowing strategies, and chains of groupings.

A chain is data, so that it can be shown when it fails, and built twice: on a script of
arrivals, and on the same elements as a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import attrs
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import penstock as beam
from penstock.testing import TestStream
from penstock.transforms.combiners.to_list import ToListCombineFn
from penstock.triggers import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)
from penstock.windowing import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    Timestamp,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS

# Longer than any script: with it nothing is ever too late.
FOR_EVER = 100_000

# An element of a stream: (key, value, seconds of event time).
Event = tuple[str, int, int]


def events(min_size: int = 0, max_size: int = 12, until: int = 40) -> st.SearchStrategy[list[Event]]:
    """Few keys, small values, and times that lie close enough for sessions to merge."""
    event = st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, until))
    return st.lists(event, min_size=min_size, max_size=max_size)


# When in processing time they arrive


@attrs.frozen
class Bundle:
    """These elements arrive together, at one of the script's sources."""

    events: tuple[Event, ...]
    source: int = 0

    def __str__(self) -> str:
        return f"arrive at {self.source}: {list(self.events)}"


@attrs.frozen
class Watermark:
    """A source's watermark moves on by so many seconds, and so many microseconds more or less.

    A window is complete at a second, but not a microsecond before it, and expires a microsecond after one.
    """

    by: int
    source: int = 0
    micros: int = 0


@attrs.frozen
class Time:
    """Processing time goes by, in seconds."""

    by: int


Step = Bundle | Watermark | Time


def scripts(sources: int = 1, max_steps: int = 12, until: int = 40) -> st.SearchStrategy[list[Step]]:
    """Elements in bundles of up to three, the watermark running ahead of some of them, and the clock."""
    source = st.integers(0, sources - 1)
    bundle = st.builds(Bundle, events(1, 3, until).map(tuple), source)
    watermark = st.builds(Watermark, st.integers(1, 15), source, st.sampled_from([0, -1, 1]))
    step = st.one_of(bundle, bundle, watermark, st.builds(Time, st.integers(1, 9)))
    # Long ones too, which would else be rare.
    return st.lists(step, max_size=max_steps) | st.lists(step, min_size=max_steps // 2, max_size=max_steps)


def all_events(script: Sequence[Step], source: int = 0) -> list[Event]:
    """What a script's source brings."""
    return [event for step in script if isinstance(step, Bundle) and step.source == source for event in step.events]


def stream_of(script: Sequence[Step], tags: Sequence[str] = (), counter: str | None = None) -> TestStream:
    """A script as a TestStream; with tags, an output for each source.

    A counter is the tag of one more output, which says before each step how many have been done.
    """
    stream = TestStream(output_tags=[*tags, *([counter] if counter else [])])
    at = [watermarks(script, source) for source in range(max(1, len(tags)))]
    for number, step in enumerate(script):
        if counter is not None:
            stream.add_elements([StepsDone(number)], counter)
        tag = None if isinstance(step, Time) or not tags else tags[step.source]
        if isinstance(step, Bundle):
            stream.add_elements(timestamped(step.events), tag)
        elif isinstance(step, Watermark):
            stream.advance_watermark_to(Timestamp.of_micros(at[step.source][number + 1]), tag)
        else:
            stream.advance_processing_time(step.by)
    if counter is not None:
        stream.add_elements([StepsDone(len(script))], counter)
    return stream


def stream_of_all(found: Sequence[tuple[Sequence[Step], int]]) -> TestStream:
    """Scripts, each with the number of its sources, as one TestStream; an output for each source, named by `tag_of`.

    Round by round it does a step of each: first the clock, if it goes by for any.
    """
    own = [(i, source) for i, (_, sources) in enumerate(found) for source in range(sources)]
    stream = TestStream(output_tags=[tag_of(i, source) for i, source in own])
    at = {(i, source): watermarks(found[i][0], source) for i, source in own}
    for number, steps in enumerate(zip_longest(*(script for script, _ in found))):
        by = max((step.by for step in steps if isinstance(step, Time)), default=0)
        if by:
            stream.advance_processing_time(by)
        for i, step in enumerate(steps):
            if isinstance(step, Bundle):
                stream.add_elements(timestamped(step.events), tag_of(i, step.source))
            elif isinstance(step, Watermark):
                watermark = Timestamp.of_micros(at[i, step.source][number + 1])
                stream.advance_watermark_to(watermark, tag_of(i, step.source))
    return stream


def tag_of(script: int, source: int = 0) -> str:
    return f"{script}-{source}"


@attrs.frozen
class StepsDone:
    """So many steps of a script have been done."""

    number: int


def watermarks(script: Sequence[Step], source: int = 0) -> list[int]:
    """A source's watermark before each step, in microseconds; then at the end of the script, then when all is over."""
    now, found = 0, [MIN_MICROS]
    for step in script:
        if isinstance(step, Watermark) and step.source == source:
            now += step.by * 1_000_000
            found.append(now + step.micros)
        else:
            found.append(found[-1])
    return [*found, MAX_MICROS]


def on_time(script: Sequence[Step], sources: int = 1) -> list[Step]:
    """The same script, with the times of its events counted from the watermark: none is behind it."""
    at = [0] * sources
    changed: list[Step] = []
    for step in script:
        if isinstance(step, Watermark):
            at[step.source] += step.by
            step = attrs.evolve(step, micros=min(step.micros, 0))
        elif isinstance(step, Bundle):
            step = attrs.evolve(step, events=tuple((k, v, at[step.source] + t) for k, v, t in step.events))
        changed.append(step)
    return changed


@st.composite
def arrivals(draw: st.DrawFn, found: Sequence[Event]) -> list[Step]:
    """A script that brings just these events, in any order and any bundles, with any moves of the clocks between."""
    left = list(draw(st.permutations(found)))
    moves = st.one_of(st.builds(Watermark, st.integers(1, 15)), st.builds(Time, st.integers(1, 9)))
    script: list[Step] = []
    while left:
        size = draw(st.integers(1, 3))
        script += [Bundle(tuple(left[:size])), *draw(st.lists(moves, max_size=2))]
        left = left[size:]
    return script


@st.composite
def interleavings(draw: st.DrawFn, scripts: Sequence[Sequence[Step]]) -> list[Step]:
    """What several sources do, each in its own order, mixed in any way."""
    turns = [number for number, script in enumerate(scripts) for _ in script]
    rest = [iter(script) for script in scripts]
    return [next(rest[number]) for number in draw(st.permutations(turns))]


def timestamped(found: Sequence[Event]) -> list[TimestampedValue]:
    """Events as pairs at their times."""
    return [TimestampedValue((key, value), time) for key, value, time in found]


# Windows and triggers


def window_fns(merging: bool | None = None) -> st.SearchStrategy[WindowFn]:
    """All kinds of windows, or only those that merge, or don't."""
    separate: list[WindowFn] = [GlobalWindows(), FixedWindows(10), SlidingWindows(10, 5)]
    found = {None: [*separate, Sessions(4), Sessions(9)], True: [Sessions(4), Sessions(9)], False: separate}
    return st.sampled_from(found[merging])


def triggers() -> st.SearchStrategy[Trigger]:
    """Triggers of all kinds, such as one would use; none is refused as unsafe."""
    again = st.sampled_from(
        [
            AfterCount(1),
            AfterCount(2),
            AfterCount(3),
            AfterProcessingTime(5),
            AfterProcessingTime(align_to=10),
            AfterAny(AfterCount(2), AfterProcessingTime(4)),
            AfterAll(AfterCount(2), AfterProcessingTime(4)),
            AfterEach(AfterCount(1), AfterProcessingTime(3)),
        ]
    )
    late = st.one_of(again, st.just(AfterCount(1)))
    return st.one_of(
        st.sampled_from([DefaultTrigger(), Always(), Never()]),
        again.map(Repeatedly),
        st.builds(AfterWatermark, st.none() | again, late),
        st.builds(lambda t: OrFinally(Repeatedly(t), Never()), again),
        st.builds(lambda t: AfterEach(t, Repeatedly(AfterCount(1))), again),
    )


@attrs.frozen
class Windowing:
    """The arguments of `WindowInto`; `batch` leaves out the trigger, for bounded input."""

    window_fn: WindowFn
    trigger: Trigger
    mode: AccumulationMode = AccumulationMode.RETRACTING
    timestamps: TimestampCombiner = TimestampCombiner.OUTPUT_AT_EOW
    lateness: int = FOR_EVER

    def stream(self) -> beam.WindowInto:
        return beam.WindowInto(
            self.window_fn,
            trigger=self.trigger,
            accumulation_mode=self.mode,
            timestamp_combiner=self.timestamps,
            allowed_lateness=self.lateness,
        )

    def batch(self) -> beam.WindowInto:
        return beam.WindowInto(self.window_fn, timestamp_combiner=self.timestamps)

    def windows(self, time: int) -> list[Any]:
        """The windows of an event of this second, before any merge."""
        return list(self.window_fn.assign(WindowFn.AssignContext(time)))

    def expiry(self, window: Any) -> int:
        """The least watermark, in microseconds, at which a window is forgotten."""
        return min(int(window.max_micros) + 2 + self.lateness * 1_000_000, MAX_MICROS)

    def kept(self, script: Sequence[Step]) -> list[tuple[Event, Any]]:
        """The events of a script that aren't too late, once for each window; these must not merge."""
        found = []
        for step, watermark in zip(script, watermarks(script)):
            if isinstance(step, Bundle):
                found += [
                    (event, window)
                    for event in step.events
                    for window in self.windows(event[2])
                    if watermark < self.expiry(window)
                ]
        return found


ANY_TIMESTAMPS = st.sampled_from(
    [TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_EARLIEST, TimestampCombiner.OUTPUT_AT_LATEST]
)


MODES = st.sampled_from([AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING, AccumulationMode.RETRACTING])


def windowings(
    window_fn: st.SearchStrategy[WindowFn] | None = None,
    mode: st.SearchStrategy[AccumulationMode] | None = None,
    lateness: st.SearchStrategy[int] | None = None,
    timestamps: st.SearchStrategy[TimestampCombiner] | None = None,
) -> st.SearchStrategy[Windowing]:
    """Any windows and triggers; retracting, results at the end of windows, and nothing too late, unless said otherwise.

    With other timestamps results depend on what comes behind the watermark, which doesn't count for them.
    """
    return st.builds(
        Windowing,
        window_fns() if window_fn is None else window_fn,
        triggers(),
        st.just(AccumulationMode.RETRACTING) if mode is None else mode,
        st.just(TimestampCombiner.OUTPUT_AT_EOW) if timestamps is None else timestamps,
        st.just(FOR_EVER) if lateness is None else lateness,
    )


# Chains of groupings


def sorted_values(key: Any, values: Any) -> Any:
    return key, tuple(sorted(values, key=repr))


def by_size(key: Any, values: tuple[Any, ...]) -> Any:
    return key, len(values)


# What is done to the values of a key: a sum that takes inputs back, others that keep them, a
# mean of floats, which can't be taken back exactly, and no combiner at all.
GROUPINGS: dict[str, Callable[[], Any]] = {
    "sum": lambda: beam.CombinePerKey(sum),
    "count": lambda: beam.combiners.Count.PerKey(),
    "max": lambda: beam.CombinePerKey(max),
    "least two": lambda: beam.combiners.Top.SmallestPerKey(2) | beam.MapTuple(lambda k, top: (k, sum(top))),
    "mean of halves": lambda: (
        beam.MapTuple(lambda k, v: (k, v / 2))
        | beam.combiners.Mean.PerKey()
        | "times" >> beam.MapTuple(lambda k, mean: (k, 0 if mean != mean else round(12 * mean)))
    ),
    "list": lambda: (
        beam.CombinePerKey(ToListCombineFn()) | beam.MapTuple(sorted_values) | "size" >> beam.MapTuple(by_size)
    ),
    "group": lambda: beam.GroupByKey() | beam.MapTuple(sorted_values) | "size" >> beam.MapTuple(by_size),
}

# Where a result goes next: the key moves with the value.
REKEYINGS: dict[str, Callable[[], Any]] = {
    "by value": lambda: beam.MapTuple(lambda k, v: (v, 1)),
    "by parity": lambda: beam.MapTuple(lambda k, v: ("even" if v % 2 == 0 else "odd", v)),
    "by key": lambda: beam.MapTuple(lambda k, v: (k, v + 1)),
    "large ones": lambda: beam.Filter(lambda pair: pair[1] > 2),
    "twice": lambda: beam.FlatMapTuple(lambda k, v: [(k, v), ("other", v)] if v % 3 else [(k, v)]),
}


@attrs.frozen
class Chain:
    """A grouping, and others after it: what to do with each result, maybe other windows, and to group again."""

    first: str
    rest: tuple[tuple[str, Windowing | None, str], ...]

    def built(self, pairs: Any, windowing: Windowing, streaming: bool) -> Any:
        """The chain, applied to pairs."""

        def windows(of: Windowing) -> Any:
            return of.stream() if streaming else of.batch()

        result = pairs | "windows 0" >> windows(windowing) | "group 0" >> GROUPINGS[self.first]()
        for number, (rekeying, other, grouping) in enumerate(self.rest, 1):
            result = result | f"rekey {number}" >> REKEYINGS[rekeying]()
            if other is not None:
                result = result | f"windows {number}" >> windows(other)
            result = result | f"group {number}" >> GROUPINGS[grouping]()
        return result


def chains(groupings: int, windowing: st.SearchStrategy[Windowing] | None = None) -> st.SearchStrategy[Chain]:
    """So many groupings; each may be windowed anew."""
    grouping = st.sampled_from(sorted(GROUPINGS))
    anew = st.none() | (windowings() if windowing is None else windowing)
    step = st.tuples(st.sampled_from(sorted(REKEYINGS)), anew, grouping)
    return st.builds(Chain, grouping, st.tuples(*[step] * (groupings - 1)))


# Examples for a test that tries all of them at once


def some(strategy: st.SearchStrategy[Any], number: int, are_random: bool = True) -> list[Any]:
    """So many examples, random or the same in each run; none is made smaller, which would take a run for each try."""
    found: list[Any] = []

    @settings(
        max_examples=number,
        phases=[Phase.generate],
        database=None,
        derandomize=not are_random,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(drawn: Any) -> None:
        found.append(drawn)

    collect()
    return found
