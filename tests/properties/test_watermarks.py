"""Watermarks, at every stage: they never go back, none is ahead of what it comes from, and what is on time stays so.

How a runner's watermarks are seen is in `observed`, for runners whose tasks are in this process;
all else looks at what that has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any
from unittest.mock import patch

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipelines.strategies import (
    ANY_TIMESTAMPS,
    GROUPINGS,
    MODES,
    Chain,
    Step,
    Windowing,
    chains,
    on_time,
    scripts,
    stream_of,
    watermarks,
    window_fns,
    windowings,
)

import penstock as beam
from penstock.runners.execution.operators.grouping import DROPPED_LATE
from penstock.runners.execution.plan.execution_graph import inputs_of, outputs_of
from penstock.runners.execution.plan.fusion import Grouping, Output, Plan
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, DefaultTrigger, PaneInfoTiming, Repeatedly
from penstock.windowing import FixedWindows, TimestampCombiner
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS

DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING

AT_ANY_TIME = windowings(timestamps=ANY_TIMESTAMPS)

MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])


@attrs.frozen
class Sent:
    """An element: its PCollection, the watermark of this when it was sent, and the timing of its pane."""

    pcollection: int
    watermark: int
    micros: int
    windows: tuple[Any, ...]
    sign: int
    timing: PaneInfoTiming


class Observed:
    """The observations of a run.

    Attributes:
      plan: its steps.
      watermarks: for each task, each time that they have been moved on, those of all PCollections that it makes but
        the sinks'.
      sent: all elements.
      metrics: what it has reported.
    """

    plan: Plan
    metrics: MetricsContainer

    def __init__(self) -> None:
        self.watermarks: dict[TaskProgram, list[dict[int, int]]] = {}
        self.sent: list[Sent] = []

    def begins(self, task: TaskProgram, metrics: MetricsContainer) -> None:
        """Look at every bundle."""
        self.plan, self.metrics = task.plan, metrics
        for pcollection in task.plan.graph.pcollections:
            task.dataflow.attach(pcollection, partial(self.note, task, pcollection))

    def note(self, task: TaskProgram, pcollection: int, bundle: Bundle) -> None:
        """These are sent."""
        watermark = task.watermark(pcollection)
        for _, micros, windows, pane, sign in bundle.rows():
            self.sent.append(Sent(pcollection, watermark, micros, windows, sign, pane.timing))

    def moved(self, task: TaskProgram) -> None:
        """All watermarks are as far as they go for now."""
        made = [i for step in task.task.steps if not isinstance(step, Output) for i in outputs_of(step)]
        self.watermarks.setdefault(task, []).append({i: task.watermark(i) for i in made})

    @property
    def groupings(self) -> list[Grouping]:
        """The groupings among its steps."""
        return [step for step in self.plan.steps if isinstance(step, Grouping)]

    @property
    def dropped(self) -> int:
        """How many elements came too late, anywhere."""
        return sum(step.counters[DROPPED_LATE] for step in self.metrics.steps.values())


def observed(run: Any, build: Callable[[Any], Any]) -> Observed:
    """Run a pipeline, and look at its tasks; they are to be in this process."""
    found, begin, propagate = Observed(), TaskProgram.__init__, TaskProgram.propagate

    def begin_observed(task: Any, plan: Any, steps: Any, clock: Any, metrics: Any, *more: Any, **named: Any) -> None:
        begin(task, plan, steps, clock, metrics, *more, **named)
        found.begins(task, metrics)

    def propagate_observed(task: Any) -> None:
        propagate(task)
        found.moved(task)

    with patch.multiple(TaskProgram, __init__=begin_observed, propagate=propagate_observed):
        run(build)
    return found


class Delay(beam.DoFn):
    """Puts out each key's last element some seconds later, by either clock."""

    LAST = ReadModifyWriteStateSpec("last")
    ON_EVENT = TimerSpec("event", beam.TimeDomain.WATERMARK)
    ON_CLOCK = TimerSpec("clock", beam.TimeDomain.REAL_TIME)

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        last: Any = beam.DoFn.StateParam(LAST),
        event: Any = beam.DoFn.TimerParam(ON_EVENT),
        clock: Any = beam.DoFn.TimerParam(ON_CLOCK),
    ) -> None:
        last.write(element)
        if element[1] % 2:
            event.set(time + 3, output_timestamp=time if element[1] % 3 else None)
        else:
            clock.set_relative(4)

    @on_timer(ON_EVENT)
    def at_event_time(self, last: Any = beam.DoFn.StateParam(LAST)) -> Iterator[Any]:
        yield last.read()

    @on_timer(ON_CLOCK)
    def at_processing_time(self, last: Any = beam.DoFn.StateParam(LAST)) -> Iterator[Any]:
        yield last.read()


# Several of everything that has a watermark of its own: sources, unions, groupings, timers, side inputs.


def built(p: Any, script: Sequence[Step], windowing: Windowing, chain: Chain) -> Any:
    outputs = p | stream_of(script, ["l", "r"])
    windows = beam.WindowInto(FixedWindows(10), allowed_lateness=20)
    largest = outputs["r"] | "tens" >> windows | beam.Values() | beam.CombineGlobally(max).without_defaults()
    pairs = (outputs["l"], outputs["r"]) | beam.Flatten()
    delayed = pairs | "windows" >> windows | beam.ParDo(Delay())
    added = delayed | beam.Map(
        lambda pair, most: (pair[0], pair[1] + max(most, default=0)), beam.pvalue.AsList(largest)
    )
    return chain.built(added, windowing, streaming=True)


@MANY
@given(scripts(sources=2), windowings(mode=MODES, timestamps=ANY_TIMESTAMPS), chains(2, AT_ANY_TIME))
def test_no_watermark_goes_back_or_is_ahead_of_what_it_comes_from(
    run: Any, script: list[Step], windowing: Windowing, chain: Chain
) -> None:
    """With data of any lateness; at the end all of them are at the end of time."""
    if windowing.mode is not AccumulationMode.RETRACTING:
        chain = attrs.evolve(chain, rest=tuple((rekeying, None, grouping) for rekeying, _, grouping in chain.rest))
    found = observed(run, lambda p: built(p, script, windowing, chain))
    for task, moves in found.watermarks.items():
        for before, after in pairwise(moves):
            assert all(before[pcollection] <= after[pcollection] for pcollection in after)
        for seen in moves:
            for step in task.task.steps:
                if not isinstance(step, Output):
                    # What is made by another task has been seen there.
                    own = [taken for taken in inputs_of(step) if taken in seen]
                    assert all(seen[made] <= seen[taken] for made in outputs_of(step) for taken in own)
        assert {MAX_MICROS} >= set(moves[-1].values())


# Of what comes on time, panes come on time, and so do retractions: an early pane that may be taken
# back holds the watermark.
PUNCTUAL = st.sampled_from(
    [
        windowings(mode=st.just(mode), lateness=st.sampled_from([0, 20]), timestamps=ANY_TIMESTAMPS)
        for mode in AccumulationMode
    ]
)


@MANY
@given(scripts(sources=2), PUNCTUAL.flatmap(lambda windowing: st.tuples(windowing, chains(2, windowing))))
def test_what_is_on_time_stays_on_time(run: Any, script: list[Step], chained: tuple[Windowing, Chain]) -> None:
    """No stage announces a watermark and then puts out what is behind it; so nothing is dropped, with no lateness."""
    windowing, chain = chained
    found = observed(run, lambda p: built(p, on_time(script, 2), windowing, chain))
    assert [] == [element for element in found.sent if element.micros < element.watermark]
    assert 0 == found.dropped


@MANY
@given(
    scripts(sources=2),
    windowings(mode=MODES, lateness=st.sampled_from([0, 3]), timestamps=ANY_TIMESTAMPS),
    chains(2, AT_ANY_TIME),
)
def test_no_grouping_has_a_pane_of_a_window_that_its_own_watermark_has_closed(
    run: Any, script: list[Step], windowing: Windowing, chain: Chain
) -> None:
    """Not at any stage: it is behind the end of the window by no more than the allowed lateness."""
    if windowing.mode is not AccumulationMode.RETRACTING:
        chain = attrs.evolve(chain, rest=tuple((rekeying, None, grouping) for rekeying, _, grouping in chain.rest))
    found = observed(run, lambda p: built(p, script, windowing, chain))
    lateness = {s.transform.outputs[None]: s.primitive.windowing.allowed_lateness.micros for s in found.groupings}
    for element in found.sent:
        if element.pcollection in lateness and element.sign > 0:
            (window,) = element.windows
            last = min(window.max_micros + 1 + lateness[element.pcollection], MAX_MICROS - 1)
            assert element.watermark <= last, element


@MANY
@given(
    scripts(sources=2),
    windowings(mode=MODES, lateness=st.sampled_from([0, 3, 20]), timestamps=ANY_TIMESTAMPS),
    chains(2, AT_ANY_TIME),
)
def test_no_grouping_emits_what_is_late_by_its_own_output_watermark(
    run: Any, script: list[Step], windowing: Windowing, chain: Chain
) -> None:
    """With data of any lateness and any timestamps, except for late panes, at the end of their windows.

    A late pane that takes one back has the timestamp of that.
    """
    if windowing.mode is not AccumulationMode.RETRACTING:
        chain = attrs.evolve(chain, rest=tuple((rekeying, None, grouping) for rekeying, _, grouping in chain.rest))
    found = observed(run, lambda p: built(p, script, windowing, chain))
    modes = {s.transform.outputs[None]: s.primitive.windowing.accumulation_mode for s in found.groupings}
    for element in found.sent:
        if element.pcollection in modes and element.sign > 0 and element.micros < element.watermark:
            assert PaneInfoTiming.LATE is element.timing, element
            is_at_end = element.micros == element.windows[0].max_micros
            assert is_at_end or modes[element.pcollection] is AccumulationMode.RETRACTING, element


# Chains of groupings that keep windows equally long, and take nothing back.
EQUALLY_LATE = st.sampled_from([0, 3, 20]).flatmap(
    lambda lateness: st.tuples(
        *[
            windowings(
                mode=st.sampled_from([DISCARDING, ACCUMULATING]), lateness=st.just(lateness), timestamps=ANY_TIMESTAMPS
            )
        ]
        * 3
    )
)


@MANY
@given(scripts(), EQUALLY_LATE)
def test_what_one_grouping_has_kept_no_grouping_after_it_drops(
    run: Any, script: list[Step], several: tuple[Windowing, ...]
) -> None:
    """With any windows, triggers and timestamps: the same allowed lateness is enough."""

    def pipeline(p: Any) -> Any:
        result = p | stream_of(script)
        for number, windowing in enumerate(several):
            result = result | f"windows {number}" >> windowing.stream() | f"sum {number}" >> beam.CombinePerKey(sum)
        return result

    found = observed(run, pipeline)
    labels = [grouping.transform.label for grouping in found.groupings]
    assert len(several) == len(labels)
    dropped = {label: step.counters[DROPPED_LATE] for label, step in found.metrics.steps.items() if label in labels[1:]}
    assert {} == {label: count for label, count in dropped.items() if count}


# Nothing is left to say of a window when the watermark is at its end.
SAID_AT_ONCE = st.sampled_from([DefaultTrigger(), Repeatedly(AfterCount(1)), AfterWatermark(late=AfterCount(1))])
# Windowings, and by how many microseconds a window may hold the watermark that is exactly at its end: other triggers
# may leave something to the closing pane, and the window expires when the watermark is past its end.
AT_ONCE = st.one_of(
    st.tuples(windowings(mode=MODES, lateness=st.just(0)), st.just(1)),
    st.tuples(
        st.builds(Windowing, window_fns(), SAID_AT_ONCE, MODES, lateness=st.sampled_from([0, 20])),
        st.just(0),
    ),
).map(lambda drawn: (attrs.evolve(drawn[0], timestamps=TimestampCombiner.OUTPUT_AT_EOW), drawn[1]))


@MANY
@given(scripts(), AT_ONCE, st.sampled_from(sorted(GROUPINGS)))
def test_nothing_holds_a_watermark_without_a_cause(
    run: Any, script: list[Step], drawn: tuple[Windowing, int], grouping: str
) -> None:
    """Where panes have the timestamp of the end of their window, every stage is as far as the source is."""
    windowing, before_the_end = drawn
    chain = Chain(grouping, (("by value", None, grouping),))
    found = observed(run, lambda p: chain.built(p | stream_of(script), windowing, streaming=True))
    exactly = dict.fromkeys(watermarks(script))
    expected = [{now} for now in exactly]
    (moves,) = found.watermarks.values()
    held = {now - before_the_end: now for now in exactly}
    seen = [{MIN_MICROS}, *({held.get(at, at) for at in moved.values()} for moved in moves)]
    assert expected == [same for same, _ in groupby(seen)]
