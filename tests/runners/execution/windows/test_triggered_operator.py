"""TriggeredWindows: panes, holds and late data.  What each trigger does is in the transcripts."""

from __future__ import annotations

from typing import Any

import pytest
from support.execution.groupings import grouping_of

import penstock as beam
from penstock.runners.execution.windows import snapshots
from penstock.runners.execution.windows.combining import Fold
from penstock.runners.execution.windows.retractions import SignedFold
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import InvalidKeyError, NotAPairError
from penstock.triggers import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterSignal,
    AfterWatermark,
    AfterWatermarkPercentile,
    PaneInfoTiming,
    Repeatedly,
    Trigger,
)
from penstock.windowing import FixedWindows, IntervalWindow, Sessions, TimestampCombiner
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS

SECOND = 1_000_000
DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode
EACH = Repeatedly(AfterCount(1))


class Windows(TriggeredWindows):
    """With what a test asks for; times in seconds."""

    def __init__(
        self,
        window_fn: Any,
        combine: Any = sum,
        retracted: bool = False,
        keep_late: bool = False,
        **windowing: Any,
    ) -> None:
        settings = {"accumulation_mode": DISCARDING} | windowing
        transform = beam.GroupByKey() if combine is None else beam.CombinePerKey(combine)
        fold = (SignedFold if retracted else Fold)(grouping_of(transform, window_fn, **settings))
        fold.setup()
        self.window_fn = window_fn
        super().__init__(fold, keep_late)

    def come(self, *elements: tuple[Any, float], sign: int = 1) -> list[Any]:
        """These come in a bundle; signs and pairs that come out."""
        micros = [round(time * SECOND) for _, time in elements]
        windows = [self.window_fn.assign_micros(time) for time in micros]
        self.process(Bundle([pair for pair, _ in elements], micros, windows, signs=sign))
        return self.signed()

    def at(self, watermark: float) -> list[Any]:
        """The watermark moves; signs and pairs that come out."""
        self.advance_watermark(round(watermark * SECOND))
        return self.signed()

    def signed(self) -> list[Any]:
        bundle = self.taken()
        return [] if bundle is None else [(sign, pair) for pair, _, _, _, sign in bundle.rows()]


# Clocks


def test_clocks_never_go_back() -> None:
    """An earlier time changes nothing."""
    windows = Windows(FixedWindows(10), trigger=Repeatedly(AfterProcessingTime(5)))
    windows.advance_processing_time(20 * SECOND)
    windows.advance_processing_time(10 * SECOND)
    windows.at(100)
    windows.at(50)
    assert (20 * SECOND, 100 * SECOND) == (windows.processing_time, windows.watermark)
    assert ([], 1) == (windows.come((("k", 1), 55)), windows.dropped)


def test_a_percentile_watermark_never_goes_back() -> None:
    """A window whose end it had passed fires for what comes."""
    trigger = Repeatedly(AfterWatermarkPercentile(0.9))
    windows = Windows(FixedWindows(10), trigger=trigger)
    windows.advance_percentile(0.9, 10 * SECOND)
    windows.advance_percentile(0.9, 5 * SECOND)
    assert [(1, ("k", 1))] == windows.come((("k", 1), 5))


def test_it_says_when_the_clock_makes_something_due() -> None:
    """The earliest of all windows; nothing when it has fired."""
    windows = Windows(FixedWindows(10), trigger=Repeatedly(AfterProcessingTime(5)))
    assert None is windows.times.next_processing_time()
    windows.advance_processing_time(2 * SECOND)
    windows.come((("a", 1), 1))
    windows.advance_processing_time(4 * SECOND)
    windows.come((("b", 2), 1))
    assert 7 * SECOND == windows.times.next_processing_time()
    windows.advance_processing_time(7 * SECOND)
    assert ([(1, ("a", 1))], 9 * SECOND) == (windows.signed(), windows.times.next_processing_time())


# The output watermark


def test_what_is_not_emitted_yet_holds_the_watermark_at_its_timestamp() -> None:
    """Where results have the times of elements; at the end of a window nothing has to be held."""
    for combiner, held in (
        (TimestampCombiner.OUTPUT_AT_EARLIEST, 3 * SECOND),
        (TimestampCombiner.OUTPUT_AT_EOW, 8 * SECOND),
    ):
        windows = Windows(FixedWindows(10), timestamp_combiner=combiner)
        windows.come((("k", 1), 5), (("k", 2), 3))
        windows.at(8)
        assert held == windows.output_watermark()
        windows.at(10)
        assert 10 * SECOND == windows.output_watermark()


def test_the_output_watermark_never_goes_back() -> None:
    """Output behind it is late downstream and holds nothing."""
    windows = Windows(
        FixedWindows(10),
        timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST,
        trigger=AfterWatermark(late=AfterCount(2)),
        allowed_lateness=100,
    )
    assert MIN_MICROS == windows.output_watermark()
    windows.at(50)
    before = windows.output_watermark()
    windows.come((("k", 1), 5))
    assert (50 * SECOND, 50 * SECOND) == (before, windows.output_watermark())


def test_a_pane_that_waits_past_the_end_of_its_window_holds_the_watermark_at_the_last_instant() -> None:
    """Otherwise it would be late for a grouping downstream, whose window is complete a microsecond later."""
    windows = Windows(FixedWindows(10), trigger=Repeatedly(AfterCount(2)), allowed_lateness=100)
    windows.come((("k", 1), 5))
    windows.at(50)
    assert 10 * SECOND - 1 == windows.output_watermark()
    assert [(1, ("k", 3))] == windows.come((("k", 2), 6))
    assert 50 * SECOND == windows.output_watermark()


def test_a_session_that_grows_after_an_early_pane_holds_the_watermark_at_that_pane() -> None:
    """Until its own end the pane may be taken back, and that must not be late downstream."""
    windows = Windows(Sessions(4), trigger=Repeatedly(AfterCount(3)), accumulation_mode=RETRACTING)
    assert [(1, ("k", 3))] == windows.come((("k", 1), 0), (("k", 1), 1), (("k", 1), 2))
    windows.come((("k", 1), 5))
    windows.at(5)
    windows.come((("k", 1), 8))
    windows.at(8)
    assert 6 * SECOND - 1 == windows.output_watermark()
    assert [(-1, ("k", 3)), (1, ("k", 6))] == windows.come((("k", 1), 11))
    windows.at(15)
    assert 15 * SECOND == windows.output_watermark()


def test_an_early_pane_at_the_time_of_an_element_holds_the_watermark_while_it_may_be_taken_back() -> None:
    """Only where panes are taken back at all."""
    for mode, held in ((RETRACTING, 3 * SECOND), (ACCUMULATING, 8 * SECOND)):
        at = TimestampCombiner.OUTPUT_AT_EARLIEST
        windows = Windows(FixedWindows(10), trigger=EACH, accumulation_mode=mode, timestamp_combiner=at)
        windows.come((("k", 1), 3))
        windows.at(8)
        assert held == windows.output_watermark()
        windows.at(10)
        assert 10 * SECOND == windows.output_watermark()


# Late data


def test_late_elements_are_counted_and_kept_if_requested() -> None:
    """With their own times, in the window that has expired."""
    for keep in (False, True):
        windows = Windows(FixedWindows(10), keep_late=keep)
        windows.at(11)
        assert [] == windows.come((("k", 1), 5), (("k", 2), 15))
        late = windows.taken_late()
        assert 1 == windows.dropped
        if not keep:
            assert None is late
            continue
        assert late is not None
        ((value, micros, own, pane, sign),) = late.rows()
        assert (("k", 1), 5 * SECOND, (IntervalWindow(0, 10),), PaneInfoTiming.LATE, 1) == (
            value,
            micros,
            own,
            pane.timing,
            sign,
        )
        assert None is windows.taken_late()


def test_a_late_retraction_is_dropped_with_its_sign() -> None:
    """It has nothing to take back any more."""
    windows = Windows(FixedWindows(10), retracted=True, keep_late=True, accumulation_mode=RETRACTING)
    windows.come((("k", 1), 5))
    assert [(1, ("k", 1))] == windows.at(11)
    assert [] == windows.come((("k", 1), 5), sign=-1)
    late = windows.taken_late()
    assert late is not None
    assert [(("k", 1), -1)] == [(row[0], row[4]) for row in late.rows()]


def test_nothing_is_kept_of_windows_that_have_expired() -> None:
    """Merging or not: the watermark at the end of time leaves no state."""
    for window_fn in (FixedWindows(10), Sessions(10)):
        windows = Windows(window_fn, trigger=EACH, allowed_lateness=5)
        windows.come(*((("k" * n, n), n) for n in range(1, 50)))
        windows.advance_watermark(MAX_MICROS)
        windows.taken()
        assert ([], None, MAX_MICROS) == (
            windows.table.all(),
            windows.times.next_processing_time(),
            windows.output_watermark(),
        )


# Values


@pytest.mark.parametrize("mode", [ACCUMULATING, RETRACTING])
def test_what_was_emitted_does_not_change_when_more_comes(mode: AccumulationMode) -> None:
    """A combiner's result may be its accumulator; a group's list is the caller's."""
    for combine in (None, beam.combiners.ToListCombineFn()):
        windows = Windows(FixedWindows(10), combine, trigger=EACH, accumulation_mode=mode)
        first = windows.come((("k", 1), 1))
        (_, (_, kept)) = first[0]
        windows.come((("k", 2), 2))
        assert [1] == kept


def test_a_combiner_of_nothing_may_have_no_empty_pane() -> None:
    """The largest of nothing is no value; a sum of nothing is one."""
    trigger = AfterWatermark(early=AfterCount(1))
    for combine, expected in ((max, []), (sum, [(1, ("k", 0))])):
        windows = Windows(FixedWindows(10), combine, trigger=trigger)
        assert [(1, ("k", 5))] == windows.come((("k", 5), 1))
        assert expected == windows.at(10)


# Retracted inputs


def test_of_what_was_all_taken_back_the_largest_is_nothing_and_the_sum_nought() -> None:
    """In a mode that doesn't retract what it has emitted."""
    for combine, expected in ((max, []), (sum, [(1, ("k", 0))])):
        windows = Windows(FixedWindows(10), combine, retracted=True, trigger=EACH, accumulation_mode=ACCUMULATING)
        assert [(1, ("k", 5))] == windows.come((("k", 5), 1))
        assert expected == windows.come((("k", 5), 1), sign=-1)


def test_a_value_that_is_taken_back_is_taken_out_of_the_result() -> None:
    """When nothing is left there is no result, only the retraction of the last."""
    windows = Windows(FixedWindows(10), retracted=True, trigger=EACH, accumulation_mode=RETRACTING)
    assert [(1, ("k", 1))] == windows.come((("k", 1), 1))
    assert [(-1, ("k", 1)), (1, ("k", 3))] == windows.come((("k", 2), 1))
    assert [(-1, ("k", 3)), (1, ("k", 2))] == windows.come((("k", 1), 1), sign=-1)
    assert [(-1, ("k", 2))] == windows.come((("k", 2), 1), sign=-1)
    assert [] == windows.at(10)


def test_sessions_part_when_what_joined_them_is_taken_back() -> None:
    """The joint result is retracted, and each part has its own again."""
    windows = Windows(Sessions(5), retracted=True, trigger=EACH, accumulation_mode=RETRACTING)
    windows.come((("k", 1), 0), (("k", 4), 8))
    assert [(-1, ("k", 1)), (-1, ("k", 4)), (1, ("k", 7))] == sorted(
        windows.come((("k", 2), 4)), key=lambda row: (row[0], row[1])
    )
    assert [(-1, ("k", 7)), (1, ("k", 1)), (1, ("k", 4))] == sorted(windows.come((("k", 2), 4), sign=-1))


def test_a_percentile_and_a_signal_of_no_trigger_change_nothing() -> None:
    """They aren't looked at."""
    windows = Windows(FixedWindows(10), trigger=Repeatedly(AfterCount(2)))
    windows.come((("k", 1), 1))
    windows.signal("flush")
    windows.advance_percentile(0.9, 100 * SECOND)
    assert [] == windows.signed()


# What can't be grouped


@pytest.mark.parametrize(
    ("element", "error"),
    [(7, NotAPairError), (("a", 1, 2), NotAPairError), ((["a"], 1), InvalidKeyError), ((object(), 1), InvalidKeyError)],
)
def test_what_can_not_be_grouped_is_refused(element: Any, error: type[Exception]) -> None:
    """By its class, as by any grouping."""
    with pytest.raises(error):
        Windows(FixedWindows(10), None, trigger=EACH).come((element, 1))


def test_a_session_that_parts_in_three_leaves_them_in_order() -> None:
    """The one that goes on in the place of the whole may be the last of them; the others were then out of order."""
    windows = Windows(Sessions(4), retracted=True, trigger=EACH, accumulation_mode=RETRACTING)

    def come(value: int, start: int, end: int, sign: int = 1) -> None:
        window = IntervalWindow(start, end)
        windows.process(Bundle([("k", value)], [window.max_micros], [(window,)], signs=sign))

    # As they come out of sessions: of any length, and the longest is taken back.
    for value, start, end in ((1, 0, 4), (2, 5, 9), (4, 10, 14), (8, 12, 16), (16, 0, 16)):
        come(value, start, end)
    come(16, 0, 16, sign=-1)
    come(2, 5, 9, sign=-1)
    come(32, 6, 8)
    come(64, 15, 20)
    current = {state.window: state.pair[1] for state in windows.table.all() if state.pane}
    spans = [IntervalWindow(0, 4), IntervalWindow(6, 8), IntervalWindow(10, 20)]
    assert dict(zip(spans, (1, 32, 4 + 8 + 64), strict=True)) == current


@pytest.mark.parametrize("mode", AccumulationMode)
@pytest.mark.parametrize("combiner", [TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_EARLIEST])
def test_windows_that_have_fired_at_their_end_are_there_until_the_watermark_is_past_it(
    mode: AccumulationMode, combiner: TimestampCombiner
) -> None:
    """One of three has a late pane; then all are gone, and a snapshot is told of each."""
    windows = Windows(FixedWindows(10), accumulation_mode=mode, timestamp_combiner=combiner)
    windows.come((("a", 1), 1), (("b", 2), 2), (("c", 3), 3))
    snapshots.snapshot(windows.table)

    assert [(1, ("a", 1)), (1, ("b", 2)), (1, ("c", 3))] == windows.at(10)
    assert {"a", "b", "c"} == {record.key for record in snapshots.changes(windows.table) if record.states}
    late = {DISCARDING: [(1, ("b", 5))], ACCUMULATING: [(1, ("b", 7))], RETRACTING: [(-1, ("b", 2)), (1, ("b", 7))]}
    assert late[mode] == windows.come((("b", 5), 5))
    assert 10 * SECOND + 1 == windows.times.next_event_time()

    assert [] == windows.at(10.000001)
    assert (0, None) == (len(windows.table), windows.times.next_event_time())
    assert {"a", "b", "c"} == {record.key for record in snapshots.changes(windows.table) if not record.states}
    assert ([], 1) == (windows.come((("a", 1), 1)), windows.dropped)


@pytest.mark.parametrize("combiner", [TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_EARLIEST])
def test_of_windows_at_their_end_and_at_their_expiry_as_many_fire_as_may(combiner: TimestampCombiner) -> None:
    """Two at a time; nothing is missing, and nothing remains."""
    windows = Windows(FixedWindows(10), timestamp_combiner=combiner)
    first: list[tuple[Any, float]] = [((key, 1), i) for i, key in enumerate("abcdef")]
    windows.come(*first)

    def by_twos(watermark: float) -> tuple[list[Any], int]:
        fired = [windows.advance_watermark(round(watermark * SECOND), 2)]
        while windows.due.is_due:
            fired.append(windows.due.fire(2))
        assert all(0 < number <= 2 for number in fired)
        return windows.signed(), len(fired)

    found, steps = by_twos(10)
    assert ([(1, pair) for pair, _ in first], True) == (found, steps > 2)
    assert [(1, ("c", 4)), (1, ("e", 5))] == windows.come((("c", 4), 4), (("e", 5), 5))
    found, steps = by_twos(11)
    assert ([], True, 0) == (found, steps >= 1, len(windows.table))


@pytest.mark.parametrize("early", [None, AfterCount(1)])
@pytest.mark.parametrize("moved", ["processing time", "signal", "watermark"])
def test_all_panes_of_a_firing_in_steps_are_on_time(early: Trigger | None, moved: str) -> None:
    """A clock that moves between two steps makes no pane late, and loses none of those without new elements."""
    trigger = AfterWatermark(early, late=AfterSignal("go"))
    windows = Windows(FixedWindows(10), trigger=trigger, accumulation_mode=ACCUMULATING, allowed_lateness=60)
    windows.come(*((("abcd"[i], 1), i) for i in range(4)))
    windows.advance_watermark(10 * SECOND, 2)
    held = windows.output_watermark()
    if moved == "processing time":
        windows.advance_processing_time(SECOND)
    elif moved == "signal":
        windows.signal("go")
    else:
        windows.advance_watermark(11 * SECOND, 1)
    assert held == windows.output_watermark() < 10 * SECOND
    while windows.due.is_due:
        windows.due.fire(1)
    bundle = windows.taken()
    assert bundle is not None
    panes = [(value, pane.timing) for value, _, _, pane, _ in bundle.rows()]
    assert [((key, 1), PaneInfoTiming.ON_TIME) for key in "abcd"] == sorted(panes)
    assert windows.watermark == windows.output_watermark()
