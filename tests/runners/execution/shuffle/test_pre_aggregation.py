"""Accumulators that are sent in the place of elements."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.execution.step_clocks import DrawnSteps, ShortSteps
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording
from support.runners.local_variants import SideBySide, Variant

import penstock as beam
from penstock.runners.execution.clock import Pace
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.execution.shuffle import pre_aggregation
from penstock.runners.execution.shuffle.blocks import decode_bundle, encode_bundle
from penstock.runners.execution.shuffle.pre_aggregation import PreAggregation
from penstock.runners.execution.windows.combining import Fold, FoldedBundle
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.runners.local.channels.messages import Barrier, BarrierKind, Elements
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import Metrics
from penstock.testing.util import assert_that
from penstock.triggers import (
    AccumulationMode,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterSize,
    AfterWatermark,
    Always,
    DefaultTrigger,
    PaneInfoTiming,
    Repeatedly,
    Trigger,
)
from penstock.windowing import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampCombiner

DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode
KEYS = "abc"


@pytest.fixture
def folds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold all foldable elements, with any gain."""
    monkeypatch.setattr(pre_aggregation, "SMALLEST", 1)
    monkeypatch.setattr(pre_aggregation, "_WORTH", 1e9)


def grouping_of(windowing: beam.WindowInto, combine: Any) -> Any:
    """The step of a combining grouping."""
    p = beam.Pipeline()
    _ = p | beam.Create([("a", 1)]) | windowing | beam.CombinePerKey(combine)
    return fuse(p.graph(), lambda *_: False).steps[-1]


def sent(before: PreAggregation, bundle: Bundle) -> list[Bundle]:
    """What is sent of a bundle, if its table is sent at once."""
    left = before.add(bundle)
    return [*(folded for _, folded in before.take()), *([] if left is None else [left])]


def into(window_fn: Any, trigger: Trigger, mode: AccumulationMode, **more: Any) -> beam.WindowInto:
    return beam.WindowInto(window_fn, trigger=trigger, accumulation_mode=mode, **more)


@pytest.mark.parametrize(
    ("window_fn", "trigger", "expected"),
    [
        (FixedWindows(10), DefaultTrigger(), True),
        (SlidingWindows(10, 5), AfterWatermark(early=AfterProcessingTime(1)), True),
        (GlobalWindows(), Repeatedly(AfterProcessingTime(1)), True),
        (FixedWindows(10), AfterWatermark(early=AfterCount(2)), False),
        (FixedWindows(10), Repeatedly(AfterAny(AfterProcessingTime(1), AfterSize(100))), False),
        (Sessions(10), DefaultTrigger(), False),
    ],
)
def test_what_has_to_see_each_element_gets_them(window_fn: Any, trigger: Trigger, expected: bool) -> None:
    """A trigger that looks at elements, and windows that merge; a clock doesn't mind."""
    step = grouping_of(into(window_fn, trigger, ACCUMULATING), sum)
    assert expected == (PreAggregation.of(step) is not None)


def test_what_may_be_taken_back_isnt_folded() -> None:
    """Neither are elements without a combiner, nor those of a grouping with a late output."""
    p = beam.Pipeline()
    early = into(FixedWindows(10), AfterWatermark(early=AfterProcessingTime(1)), RETRACTING)
    sums = p | beam.Create([("a", 1)]) | early | beam.CombinePerKey(sum)
    _ = sums | "again" >> beam.CombinePerKey(max)
    _ = p | "more" >> beam.Create([("a", 1)]) | beam.GroupByKey()
    first, second, plain = (step for step in fuse(p.graph(), lambda *_: False).steps if hasattr(step, "fused"))
    found = [PreAggregation.of(step) is not None for step in (first, second, plain)]
    assert [True, False, False] == found


@pytest.mark.parametrize("combiner", list(TimestampCombiner))
def test_results_at_the_earliest_timestamp_need_each_elements(combiner: TimestampCombiner) -> None:
    """Of those of a bundle some may be behind the output watermark, and don't count."""
    windowing = into(FixedWindows(10), DefaultTrigger(), DISCARDING, timestamp_combiner=combiner)
    expected = combiner in (TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_LATEST)
    assert expected == (PreAggregation.of(grouping_of(windowing, sum)) is not None)


def test_folding_rests_when_it_doesnt_shrink_the_data_and_is_tried_again() -> None:
    """The accumulators of the trial are sent as such."""
    before = PreAggregation.of(grouping_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING), sum))
    assert before is not None
    keys = iter(range(10**6))
    found = [type(sent(before, Bundle([(next(keys), 1) for _ in range(100)]))[0]) for _ in range(100)]
    tried = [n for n, each in enumerate(found) if each is FoldedBundle]
    assert [0, 5, 14, 31, 64, 97] == tried
    few = [type(sent(before, Bundle([(n % 10, 1) for n in range(100)]))[0]) for _ in range(35)]
    assert [*[Bundle] * 30, *[FoldedBundle] * 5] == few


def table_of(windowing: beam.WindowInto, combine: Any = sum) -> PreAggregation:
    """A folding of everything, which is to be asked about its table."""
    before = PreAggregation.of(grouping_of(windowing, combine))
    assert before is not None
    return before


def test_a_table_outlives_a_bundle_and_takes_in_even_a_few_elements(folds_all: None) -> None:
    """Or they would overtake those of their key that are in it."""
    before = table_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING), Longest())
    bundles = [[("a", 1), ("b", 2)], [("a", 3)], [("c", 4), ("a", 5)]]
    assert [None] * 3 == [before.add(Bundle(list(pairs))) for pairs in bundles]
    ((_, folded),) = before.take()
    assert [("a", ([1, 3, 5], 3)), ("b", ([2], 1)), ("c", ([4], 1))] == folded.values
    assert (False, []) == (bool(before), before.take())


def test_a_table_is_full_at_its_bound_of_entries(monkeypatch: pytest.MonkeyPatch, folds_all: None) -> None:
    """In all windows together."""
    monkeypatch.setattr(pre_aggregation, "MOST_ENTRIES", 100)
    before = table_of(into(FixedWindows(10), DefaultTrigger(), DISCARDING))
    found = []
    for window in range(4):
        before.add(bundle_of([(str(n), n, 10 * window) for n in range(30)], FixedWindows(10)))
        before.add(bundle_of([(str(n), n, 10 * window) for n in range(30)], FixedWindows(10)))
        found.append(before.is_full)
    assert [False, False, False, True] == found
    before.take()
    assert not before.is_full


def test_a_table_is_full_at_its_bound_of_bytes(monkeypatch: pytest.MonkeyPatch, folds_all: None) -> None:
    """Of few accumulators that grow."""
    monkeypatch.setattr(pre_aggregation, "MOST_BYTES", 100_000)
    before = table_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING), Longest())
    added = 0
    while not before.is_full:
        before.add(Bundle([("a", bytes(1_000)) for _ in range(10)]))
        added += 10
    # The memory is measured whenever the elements are twice as many as the last time.
    assert 100 <= added <= 200
    before = table_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING))
    for _ in range(200):
        before.add(Bundle([("a", 1)] * 1_000))
        assert not before.is_full


class AtNoon(AfterProcessingTime):
    """A user's trigger, which may look at the watermark at any time."""


@pytest.mark.parametrize(
    ("trigger", "combiner", "expected"),
    [
        (DefaultTrigger(), TimestampCombiner.OUTPUT_AT_EOW, 20),
        (AfterWatermark(early=AfterProcessingTime(1), late=Always()), TimestampCombiner.OUTPUT_AT_EOW, 20),
        (DefaultTrigger(), TimestampCombiner.OUTPUT_AT_LATEST, 1),
        (Repeatedly(AfterAny(AfterProcessingTime(1), AtNoon(1))), TimestampCombiner.OUTPUT_AT_EOW, 1),
    ],
)
def test_a_watermark_matters_from_the_end_of_a_window_in_the_table(
    folds_all: None, trigger: Trigger, combiner: TimestampCombiner, expected: int
) -> None:
    """Any watermark does for the latest timestamps, which hold it, and for users' triggers."""
    before = table_of(into(FixedWindows(10), trigger, DISCARDING, timestamp_combiner=combiner, allowed_lateness=1))
    assert not before.matters(10**12)
    for second in (35, 12, 28):
        before.add(bundle_of([("a", 1, second)], FixedWindows(10)))
    assert expected == next(second for second in range(1, 100) if before.matters(second * 1_000_000))


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (DefaultTrigger(), (pre_aggregation.LONG_PATIENCE, pre_aggregation.PATIENCE)),
        (AfterWatermark(late=Always()), (pre_aggregation.LONG_PATIENCE, pre_aggregation.PATIENCE)),
        (AfterWatermark(early=Always(), late=Always()), (pre_aggregation.PATIENCE, pre_aggregation.PATIENCE)),
        (Repeatedly(AfterProcessingTime(1)), (pre_aggregation.PATIENCE, pre_aggregation.PATIENCE)),
    ],
)
def test_a_table_waits_for_longer_where_no_pane_can_be_due(
    folds_all: None, trigger: Trigger, expected: tuple[int, int]
) -> None:
    """Before the end of its windows, and behind it."""
    before = table_of(into(FixedWindows(10), trigger, ACCUMULATING, allowed_lateness=100))
    before.add(bundle_of([("a", 1, 12)], FixedWindows(10)))
    assert expected == (before.patience(19_999_999), before.patience(20_000_000))


def test_an_error_in_a_fold_leaves_an_empty_table(folds_all: None) -> None:
    """What was folded before is lost with its subtask."""
    before = table_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING))
    before.add(Bundle([("a", 1)]))
    with pytest.raises(TypeError) as raised:
        before.add(Bundle([("a", 1), ("a", "b")]))
    assert ("CombinePerKey(sum)", "('a', 'b')") == (raised.value.transform, raised.value.element)  # type: ignore[attr-defined]
    assert not before


def test_one_table_that_is_sent_early_does_not_end_folding() -> None:
    """Two that are do."""
    before = table_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING))
    few, unlike = Bundle([("a", 1)] * 400), Bundle([(n, 1) for n in range(100)])
    found = [type(sent(before, bundle)[0]) for bundle in (few, unlike, few, unlike, unlike, few)]
    assert [*[FoldedBundle] * 5, Bundle] == found


def test_a_few_elements_go_as_they_are() -> None:
    """They wouldn't be worth a call."""
    before = PreAggregation.of(grouping_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING), sum))
    assert before is not None
    bundle = Bundle([("a", 1)] * (pre_aggregation.SMALLEST - 1))
    assert bundle is before.add(bundle)
    assert not before


def before_sums(combine: Any, size: int) -> PreAggregation:
    """A folding of so many elements in a step."""
    step = grouping_of(into(GlobalWindows(), DefaultTrigger(), DISCARDING), combine)
    before = PreAggregation.of(step, ShortSteps(size))
    assert before is not None
    return before


def test_of_a_bundle_as_much_is_folded_as_a_step_may_take() -> None:
    """The rest is sent as it is, in its order."""
    before = before_sums(sum, 40)
    found, left = sent(before, Bundle([(n % 2, n) for n in range(100)]))
    done = 100 - len(left)
    assert 40 == done
    assert [(n % 2, n) for n in range(done, 100)] == left.values
    assert [(k, (sum(range(k, done, 2)), len(range(k, done, 2)))) for k in (0, 1)] == found.values


def test_folding_rests_when_it_is_slow() -> None:
    """Of the next bundles nothing is folded, until it is tried again; then of more."""
    before = before_sums(sum, 10)
    found = [[type(each) for each in sent(before, Bundle([(0, 1)] * 100))] for _ in range(15)]
    tried, rests = [FoldedBundle, Bundle], [Bundle]
    assert [tried, *[rests] * 4, tried, *[rests] * 8, tried] == found


class Compacting(beam.CombineFn):
    """Counts, in accumulators that say whether they are compact."""

    def create_accumulator(self) -> tuple[int, bool]:
        return 0, False

    def add_input(self, accumulator: tuple[int, bool], element: Any) -> tuple[int, bool]:
        return accumulator[0] + 1, False

    def merge_accumulators(self, accumulators: Any) -> tuple[int, bool]:
        return sum(n for n, _ in accumulators), False

    def compact(self, accumulator: tuple[int, bool]) -> tuple[int, bool]:
        if accumulator[0] > 50:
            raise LookupError("in compact")
        return accumulator[0], True

    def extract_output(self, accumulator: tuple[int, bool]) -> int:
        return accumulator[0]


def test_accumulators_are_sent_as_they_are_when_a_step_may_compact_no_more() -> None:
    """It is optional for each."""
    two = (beam.window.IntervalWindow(0, 10), beam.window.IntervalWindow(5, 15))
    before = before_sums(Compacting(), 100)
    before._compacting = Pace(60, 60)
    (folded,) = sent(before, Bundle([(n, n) for n in range(100)], 0, two))
    assert 2 * ([True] * 60 + [False] * 40) == [is_compact for _, ((_, is_compact), _) in folded.values]


def test_an_error_of_compact_is_one_of_its_step() -> None:
    """It used to lack the transform's name."""
    before = before_sums(Compacting(), 1000)
    before.add(Bundle([("a", 1)] * 100))
    with pytest.raises(LookupError) as raised:
        before.take()
    assert "CombinePerKey(Compacting)" == raised.value.transform  # type: ignore[attr-defined]


def test_accumulators_travel_as_what_they_are() -> None:
    """Through a pipe, and in halves."""
    bundle = FoldedBundle([("a", (5, 2)), ("b", ((1, 2), 3))], [1, 2])
    (block,) = encode_bundle(bundle)
    found = decode_bundle(block)
    assert FoldedBundle is type(found)
    assert (bundle.values, bundle.timestamps) == (found.values, found.timestamps)
    assert [("b", ((1, 2), 3))] == found.part(1, 2).values


class Longest(beam.CombineFn):
    """A combiner without expressions, whose accumulators change in place."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> list[Any]:
        first, *others = accumulators
        for other in others:
            first.extend(other)
        return first  # type: ignore[no-any-return]

    def extract_output(self, accumulator: list[Any]) -> Any:
        return sorted(accumulator)


EVENTS = st.one_of(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 40)), max_size=8),
    st.integers(0, 60),
)
TRIGGERS = st.sampled_from(
    [
        DefaultTrigger(),
        AfterWatermark(early=Always(), late=Always()),
        Repeatedly(AfterProcessingTime(3)),
        AfterWatermark(early=AfterProcessingTime(2), late=Always()),
    ]
)


@given(
    events=st.lists(EVENTS, max_size=12),
    window_fn=st.sampled_from([FixedWindows(10), SlidingWindows(10, 5), GlobalWindows()]),
    trigger=TRIGGERS,
    mode=st.sampled_from(list(AccumulationMode)),
    combine=st.sampled_from([sum, max, beam.combiners.MeanCombineFn(), beam.combiners.ToListCombineFn(), Longest()]),
    lateness=st.sampled_from([0, 7]),
    combiner=st.sampled_from([TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_LATEST]),
    every=st.sampled_from([None, 2, 5]),
)
def test_panes_and_what_is_dropped_are_the_same_with_and_without(
    events: list[Any],
    window_fn: Any,
    trigger: Trigger,
    mode: AccumulationMode,
    combine: Any,
    lateness: int,
    combiner: TimestampCombiner,
    every: int | None,
) -> None:
    """Element by element or as accumulators, wherever a fold is left, with clocks that move in between."""
    windowing = into(window_fn, trigger, mode, allowed_lateness=lateness, timestamp_combiner=combiner)
    step = grouping_of(windowing, combine)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pre_aggregation, "SMALLEST", 1)
        patched.setattr(pre_aggregation, "_WORTH", 1e9)
        patched.setattr(pre_aggregation, "_MOST_RESTS", 0)
        before = PreAggregation.of(step, None if every is None else DrawnSteps(every))
        assert before is not None
        found = []
        # What is asked once for each bundle is asked for both parts of one that was left.
        cuts: list[int] = []
        for folds in (True, False):
            fold = Fold(step.transform)
            windows = TriggeredWindows(fold)
            panes: list[Any] = []
            for event in [*events, 10**6]:
                if isinstance(event, int):
                    windows.advance_processing_time(event * 1_000_000)
                    windows.advance_watermark(event * 1_000_000)
                elif event:
                    bundle = bundle_of(event, window_fn)
                    if folds:
                        left = before.add(bundle)
                        cuts.append(len(bundle) - len(left or ()))
                        for _, folded in before.take():
                            windows.process(folded)
                        if left is not None:
                            windows.process(left)
                    else:
                        cut = cuts.pop(0)
                        for part in (bundle.part(0, cut), bundle.part(cut, len(bundle))):
                            windows.process(part)
                taken = windows.taken()
                rows = [] if taken is None else list(taken.rows())
                panes.append((sorted(map(repr, rows)), windows.output_watermark()))
            found.append((panes, windows.dropped))
    assert found[0] == found[1]


# The second "b" ends the hold of the first one, behind which "a" comes in the same bundle, or in another.
@example(
    events=[[("b", 0, 20)], 21, [("b", 0, 21)], [("a", 1, 20)]],
    window_fn=FixedWindows(10),
    trigger=DefaultTrigger(),
    lateness=0,
    combiner=TimestampCombiner.OUTPUT_AT_LATEST,
)
@given(
    events=st.lists(EVENTS, max_size=14),
    window_fn=st.sampled_from([FixedWindows(10), SlidingWindows(10, 5), GlobalWindows()]),
    trigger=st.sampled_from([DefaultTrigger(), AfterWatermark(late=Always()), Repeatedly(AfterProcessingTime(3))]),
    lateness=st.sampled_from([0, 7]),
    combiner=st.sampled_from([TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_LATEST]),
)
def test_no_element_is_late_because_it_waits_in_a_table(
    events: list[Any], window_fn: Any, trigger: Trigger, lateness: int, combiner: TimestampCombiner
) -> None:
    """What is on time or dropped, and the timestamps of windows are the same as if each watermark sent the table."""
    windowing = into(window_fn, trigger, DISCARDING, allowed_lateness=lateness, timestamp_combiner=combiner)
    step = grouping_of(windowing, sum)
    found = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pre_aggregation, "SMALLEST", 1)
        patched.setattr(pre_aggregation, "_WORTH", 1e9)
        for waits in (True, False):
            before = PreAggregation.of(step)
            assert before is not None
            windows = TriggeredWindows(Fold(step.transform))
            panes: list[Any] = []
            watermark = 0
            for event in [*events, 10**6]:
                if not isinstance(event, int):
                    assert not event or before.add(bundle_of(event, window_fn)) is None
                    continue
                watermark = max(watermark, event * 1_000_000)
                if not waits or before.matters(watermark):
                    for _, folded in before.take():
                        windows.process(folded)
                windows.advance_watermark(watermark)
                taken = windows.taken()
                panes += [] if taken is None else taken.rows()
            # Late panes are one for each bundle; of those on time there is one.
            sums = Counter[Any]()
            for (key, value), micros, own, pane, _ in panes:
                on_time = pane.timing is PaneInfoTiming.ON_TIME
                sums[key, own, on_time, micros if on_time else None] += value
            found.append((sums, windows.dropped, windows.output_watermark()))
    assert found[0] == found[1]


def bundle_of(pairs: list[tuple[str, int, int]], window_fn: Any) -> Bundle:
    """Elements at seconds, in their windows."""
    micros = [second * 1_000_000 for _, _, second in pairs]
    context = beam.window.WindowFn.AssignContext
    windows = [tuple(window_fn.assign(context(beam.window.Timestamp.of_micros(t), element=None))) for t in micros]
    return Bundle([(key, value) for key, value, _ in pairs], micros, windows)


class Counting(Longest):
    """Counts the elements that it is given, as a user may."""

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        Metrics.counter("user", "seen").inc()
        return super().add_input(accumulator, element)


def ran(variant: Variant) -> tuple[list[Any], dict[Any, int]]:
    """Return the results of a pipeline with two shuffles, and its counters by step and name."""
    p = beam.Pipeline(SideBySide(variant))
    events = [(f"k{n % 5}", n, n % 60) for n in range(3000)]
    pairs = p | beam.Create(events) | beam.Map(lambda e: beam.window.TimestampedValue((e[0], e[1]), e[2]))
    windowed = pairs | beam.WindowInto(SlidingWindows(20, 10))
    lists = windowed | "lists" >> beam.CombinePerKey(Counting())
    sums = lists | beam.MapTuple(lambda key, values: (None, sum(values)))
    totals = sums | "totals" >> beam.CombinePerKey(sum)
    kept: list[Any] = []
    assert_that((lists, totals) | beam.Flatten(), kept.extend)
    result = p.run()
    counters = result.metrics().query()["counters"]
    return sorted(kept, key=repr), {(one.key.step, one.key.metric.name): one.committed for one in counters}


@pytest.mark.parametrize("parallelism", [2, 4])
def test_a_job_gives_the_same_results_and_metrics_with_and_without(
    parallelism: int, monkeypatch: pytest.MonkeyPatch, folds_all: None
) -> None:
    """And what user code counts in a combiner that now runs before the shuffle."""
    sizes: list[tuple[int, int]] = []
    take = PreAggregation.take

    def watched(self: PreAggregation) -> Any:
        found = take(self)
        sizes.extend((folded.elements, len(folded)) for _, folded in found)
        return found

    monkeypatch.setattr(PreAggregation, "take", watched)
    with_folding = ran(Variant(parallelism, takes_checkpoints=True))
    assert sum(after for _, after in sizes) * 10 < sum(before for before, _ in sizes)
    monkeypatch.setattr(PreAggregation, "of", lambda step, step_clock: None)
    without = ran(Variant(parallelism, takes_checkpoints=True))
    assert without == with_folding
    assert 6000 == with_folding[1]["lists", "seen"]


def listed(p: Any) -> None:
    pairs = p | beam.Create([(key, n) for n in range(8) for key in KEYS])
    pairs | beam.CombinePerKey(Longest()) | beam.io.Write(Recording())


@pytest.mark.parametrize("restored_in", [1, 2, 3])
def test_accumulators_in_flight_are_in_a_snapshot_as_they_were(restored_in: int, folds_all: None) -> None:
    """Although they are merged, in place, before the last barrier has come and the snapshot is written."""
    found = ByHand(graph_of(listed))
    found.run(0)
    waiting = [message for channel in found.channels.values() for message in channel.queue]
    assert any(isinstance(message, Elements) and type(message.bundle) is FoldedBundle for message in waiting)
    barrier = Barrier(1, BarrierKind.UNALIGNED, epoch=1)
    for source in (found[0, 0], found[0, 1]):
        source.inject(barrier)
        found.run(1)
    again = ByHand(graph_of(listed, restored_in), found.snapshots())
    again.run()
    again.inject(Barrier(2, epoch=2))
    again.run()
    assert [(key, list(range(8))) for key in KEYS] == sorted(again.written())
