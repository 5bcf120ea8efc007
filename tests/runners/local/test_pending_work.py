"""Steps that end between two bundles: nothing of what is pending is lost, comes twice or becomes late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.execution.step_clocks import DrawnSteps, ShortSteps
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording

import penstock as beam
from penstock.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from penstock.runners.execution.shuffle.blocks import decode_bundle
from penstock.runners.execution.streaming.snapshot_chunks import IN_FLIGHT
from penstock.runners.local.channels.messages import Barrier, BarrierKind, Elements
from penstock.sdk.dofn.splittable_dofn import RestrictionProvider
from penstock.sdk.userstate import BagStateSpec, TimeDomain, TimerSpec, on_timer, on_window_expiration
from penstock.windowing import FixedWindows, TimestampedValue

NUMBERS = range(40)


class ToTheEnd(RestrictionProvider):
    """The numbers up to an element."""

    def initial_restriction(self, n: int) -> OffsetRange:
        return OffsetRange(0, n)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, n: int, restriction: OffsetRange) -> float:
        return restriction.size()


class Below(beam.DoFn):
    """Puts out the numbers below an element, one claim each."""

    def process(self, n: int, tracker: Any = beam.DoFn.RestrictionParam(ToTheEnd())) -> Any:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield n, position
            position += 1


class AtTheEnd(beam.DoFn):
    """Has a timer for each value of a key, and puts out how many there are when the window expires."""

    KEPT = BagStateSpec("kept")
    TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        kept: Any = beam.DoFn.StateParam(KEPT),
        timer: Any = beam.DoFn.TimerParam(TIMER),
        window: Any = beam.DoFn.WindowParam,
    ) -> None:
        kept.add(pair[1])
        timer.set(window.end - 1, dynamic_timer_tag=str(pair[1]))

    @on_timer(TIMER)
    def fire(self, key: Any = beam.DoFn.KeyParam, tag: Any = beam.DoFn.DynamicTimerTagParam) -> Any:
        yield key, f"timer {tag}"

    @on_window_expiration
    def end(self, key: Any = beam.DoFn.KeyParam, kept: Any = beam.DoFn.StateParam(KEPT)) -> Any:
        yield key, len(list(kept.read()))


def elements(p: Any) -> Any:
    return p | beam.Create(NUMBERS)


def abs_of_pair(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0], abs(pair[1])


def in_windows(p: Any) -> Any:
    timestamped = elements(p) | beam.Map(lambda n: TimestampedValue((n % 3, n), n)) | "Same" >> beam.Map(abs_of_pair)
    return timestamped | beam.WindowInto(FixedWindows(10))


def expanding(pcoll: Any) -> Any:
    return pcoll | "Expand" >> beam.FlatMap(lambda n: [n, -n] if n < 100 else [])


def after_a_side_input(p: Any) -> Any:
    """Counts of what waits until the side input is complete."""
    limit = p | "Limit" >> beam.Create([20])
    pairs = in_windows(p) | beam.Map(lambda pair, limit: (pair[1] < limit, 1), limit=beam.pvalue.AsSingleton(limit))
    return pairs | beam.CombinePerKey(sum)


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "a fused stage": lambda p: elements(p) | beam.Map(lambda n: n + 1) | beam.Filter(lambda n: n % 7),
    "outputs with timestamps within a stage": in_windows,
    "several outputs": lambda p: expanding(elements(p)),
    "a received frame": lambda p: elements(p) | beam.Reshuffle() | beam.Map(lambda n: n),
    "a grouping's panes": lambda p: in_windows(p) | beam.CombinePerKey(sum) | beam.Map(lambda pair: pair),
    "a stage that has waited for its side input": after_a_side_input,
    "a grouping": lambda p: in_windows(p) | beam.GroupByKey() | beam.MapTuple(lambda k, values: (k, sorted(values))),
    "timers and expiries": lambda p: in_windows(p) | beam.ParDo(AtTheEnd()),
    "a splittable DoFn": lambda p: p | beam.Create([3, 20, 7]) | beam.ParDo(Below()) | beam.Map(lambda pair: pair),
}


@pytest.fixture(params=PIPELINES)
def build(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """A pipeline, whose results are written."""
    results = PIPELINES[request.param]

    def built(p: Any) -> None:
        _ = results(p) | "Result" >> beam.Map(lambda result: result) | "Sink" >> beam.io.Write(Recording())

    return built


def ended(hand: ByHand, number: int) -> list[Any]:
    """Run everything to its end; what was written since the last barrier."""
    hand.run()
    assert [] == [id for id, subtask in hand.subtasks.items() if not subtask.is_complete()]
    hand.inject(Barrier(number, transaction=f"{number}"))
    hand.run()
    return hand.written()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("every", [2, 3, 7])
def test_results_are_those_of_steps_that_do_all_at_once(
    build: Callable[[Any], Any], every: int, parallelism: int
) -> None:
    """However much they do."""
    graph = graph_of(build, parallelism)
    expected = sorted(ended(ByHand(graph), 1), key=repr)
    assert expected == sorted(ended(ByHand(graph, step_clock=DrawnSteps(every)), 1), key=repr)


def staged_in(hand: ByHand, id: Any, transaction: str) -> list[Any]:
    """Return the rows that a subtask has staged in a transaction."""
    staged = hand.subtasks[id].snapshots.staged.values()
    return [token for tokens in staged for of, token in tokens if of == transaction]


@pytest.mark.parametrize("again", [2, 3])
@pytest.mark.parametrize("steps", [1, 2, 5, 9])
def test_a_snapshot_has_what_is_pending(build: Callable[[Any], Any], steps: int, again: int) -> None:
    """A restart from a barrier between any two elements does the rest once, with another number of subtasks, too."""
    graph = graph_of(build, 2)
    expected = sorted(ended(ByHand(graph), 1), key=repr)
    hand = ByHand(graph, step_clock=DrawnSteps(2))
    for _ in range(steps):
        for subtask in hand.subtasks.values():
            subtask.step()
    barrier = Barrier(1, transaction="next")
    for subtask in hand.subtasks.values():
        subtask.expect(barrier)
    hand.inject(barrier)
    while len(hand.chunks) < len(hand.subtasks):
        for subtask in hand.subtasks.values():
            subtask.step()
    # What a step has written behind the barrier is not in the snapshot, and is done again.
    before = [change.value for id in hand.subtasks for token in staged_in(hand, id, "t") for change in token.values()]
    rest = ended(ByHand(graph_of(build, again), hand.snapshots(), step_clock=DrawnSteps(3)), 2)
    assert expected == sorted(before + rest, key=repr)


def test_what_waits_in_a_channel_is_in_the_snapshot_of_an_unaligned_barrier_only() -> None:
    """A bundle that is larger than a step allows is cut; the rest of it stays in the channel."""
    hand = ByHand(
        graph_of(lambda p: elements(p) | beam.Reshuffle() | beam.Map(lambda n: n), 1), step_clock=ShortSteps()
    )
    hand.run(0)
    assert hand[1, 0].step()
    (channel,) = hand.channels.values()
    waiting = sum(len(message.bundle) for message in channel.queue if isinstance(message, Elements))
    assert waiting > 1
    hand[0, 0].inject(Barrier(1, BarrierKind.UNALIGNED, transaction="next"))
    assert hand[1, 0].step()
    in_flight = [chunk.data for chunk in hand.chunks[hand[1, 0].id] if IN_FLIGHT in chunk.kind]
    assert [waiting] == [sum(len(decode_bundle(block)) for block in blocks) for blocks in in_flight]


def test_watermarks_follow_when_the_clock_alone_has_done_the_rest() -> None:
    """The tick in which a step catches up moves the watermark behind it, and tells the tasks further on.

    Perhaps no message comes any more.
    """
    step_clock = ShortSteps()

    def build(p: Any) -> None:
        sums = in_windows(p) | beam.CombinePerKey(sum)
        _ = sums | beam.Reshuffle() | "Further" >> beam.CombinePerKey(sum) | beam.Map(lambda pair: pair)

    hand = ByHand(graph_of(build, 1), step_clock=step_clock)
    hand.run(0)
    receiver = hand[1, 0]
    while not receiver.execution.has_pending:
        assert any((hand[0, 0].step(), receiver.step()))
        hand[0, 0].tick()
    step_clock.are_over = False
    receiver.execution.clock.advance(1)
    receiver.tick()
    assert (False, True) == (receiver.execution.has_pending, receiver.is_complete())
    later = [subtask for id, subtask in hand.subtasks.items() if id.task > 1]
    while any(subtask.step() for subtask in later):
        pass
    assert [True] * len(later) == [subtask.is_complete() for subtask in later]
