"""Uniform windows: whatever happens, panes and snapshots are those of windows whose keys have a state each."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.execution.groupings import fold_of

import penstock as beam
from penstock.runners.execution.spilling.rocksdb import SpillDatabase, SpilledEntries
from penstock.runners.execution.spilling.spilled_step import NumberedWindows, SpillContext
from penstock.runners.execution.windows import snapshots, spilled_cells, triggered_operator
from penstock.runners.execution.windows.combining import Fold, FoldedBundle
from penstock.runners.execution.windows.snapshots import WindowColumns, row_of
from penstock.runners.execution.windows.spilled_cells import SpilledCells
from penstock.runners.execution.windows.spilled_windows import SpilledWindows
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import InvalidKeyError, NotAPairError
from penstock.transforms.combiners import MeanCombineFn
from penstock.triggers import AccumulationMode, AfterCount, AfterSignal, AfterWatermark, DefaultTrigger, Never, Trigger
from penstock.triggers.trigger import TriggerContext
from penstock.windowing import FixedWindows, GlobalWindows, IntervalWindow, SlidingWindows
from penstock.windowing.timestamp import MAX_MICROS

SECOND = 1_000_000
DISCARDING, ACCUMULATING, _ = AccumulationMode


class Slow(beam.CombineFn):
    """A sum without an expression, whose accumulators are changed in place, and aren't results."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> list[int]:
        return [value for accumulator in accumulators for value in accumulator]

    def extract_output(self, accumulator: list[int]) -> int:
        return sum(accumulator)


class Every(Trigger):
    """A user's trigger that fires every three seconds of both times, whether there are new elements or not."""

    PERIOD = 3 * SECOND

    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        return state

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        return max((state for state in states if state is not None), default=None)

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        event_time, processing_time = self._times(state, context)
        return context.watermark >= event_time or context.processing_time >= processing_time

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        return (context.watermark + self.PERIOD, context.processing_time + self.PERIOD), False

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        return self._times(state, context)[0]

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        return self._times(state, context)[1]

    def _times(self, state: Any, context: TriggerContext) -> tuple[int, int]:
        return state or (context.end_of_window + self.PERIOD, self.PERIOD)


def transform_of(combine: Any) -> beam.PTransform:
    return beam.GroupByKey() if combine is None else beam.CombinePerKey(combine)


class Player:
    """An operator, and the chain of snapshots that it is restored from."""

    def __init__(self, fold: Fold, is_uniform: bool, most: int) -> None:
        self.fold = fold
        self.is_uniform = is_uniform
        self.most = most
        self.records: list[Any] = []
        self.dropped = 0
        self.out: list[Bundle | None] = []
        self.operator = self._new()

    def _new(self) -> TriggeredWindows:
        with pytest.MonkeyPatch.context() as patched:
            if not self.is_uniform:
                patched.setattr(triggered_operator, "may_be_uniform", lambda *_: False)
            return TriggeredWindows(self.fold)

    def play(self, event: Any) -> Any:
        """Let something happen; return what can be seen of it."""
        kind, what = event
        operator = self.operator
        if kind == "watermark":
            operator.advance_watermark(what, self.most)
        elif kind == "signal":
            operator.signal(what)
        elif kind == "clock":
            operator.advance_processing_time(what, self.most)
        elif kind == "look":
            operator.table.all()
        elif kind in ("whole", "changes"):
            self._record(kind == "whole" or not self.records)
        elif kind == "restore" and self.records:
            self._restore()
            operator = self.operator
        elif kind in ("elements", "folded"):
            operator.process(self._bundle(what, kind == "folded"))
        # More than there ever are to fire.
        for _ in range(500):
            if self.operator.due.is_due:
                self._fire()
        assert not self.operator.due.is_due
        operator = self.operator
        bundles, self.out = [*self.out, operator.taken()], []
        rows = sorted(repr(row) for bundle in bundles if bundle is not None for row in bundle.rows())
        return rows, operator.output_watermark(), operator.dropped

    def times(self) -> Any:
        return self.operator.times.next_event_time(), len(self.operator.table)

    def _fire(self) -> None:
        self.operator.due.fire(self.most)

    def _bundle(self, elements: Any, is_folded: bool) -> Bundle:
        window_fn = self.fold.windowing.window_fn
        micros = [time * SECOND for _, _, time in elements]
        windows = [window_fn.assign_micros(time) for time in micros]
        if not is_folded:
            return Bundle([(key, value) for key, value, _ in elements], micros, windows)
        rows = [
            (key, self.fold.of([value]), window) for (key, value, _), own in zip(elements, windows) for window in own
        ]
        stamps, own = [window.max_micros for *_, window in rows], [(window,) for *_, window in rows]
        return FoldedBundle([(key, (accumulator, 1)) for key, accumulator, _ in rows], stamps, own)

    def _record(self, is_whole: bool) -> None:
        found = snapshots.by_group(self.operator.table, is_whole)
        records = [record for _, own in found for record in own]
        self.records = pickle.loads(pickle.dumps(records if is_whole else [*self.records, *records]))
        self.clocks = self.operator.clocks()

    def _restore(self) -> None:
        self._record(False)
        self._begin_anew()
        snapshots.restore(self.operator.table, self.records)
        self.operator.unify_restored()
        self.operator.due.look_at_restored()

    def _begin_anew(self) -> None:
        dropped, self.operator = self.operator.dropped, self._new()
        self.operator.dropped = dropped
        self.operator.set_clocks(self.clocks)

    def stored(self) -> dict[Any, Any]:
        """The states that the chain holds, once the changes so far are appended."""
        self._record(not self.records)
        last = {(record.key, record.window): record.states for record in self.records}
        return {place: repr(states) for place, states in last.items() if states}

    def rows(self) -> dict[Any, Any]:
        return {(state.key, state.window): repr((row_of(state),)) for state in self.operator.table.all()}


ELEMENTS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(1, 3), st.integers(0, 40)),
    max_size=8,
)
TIMES = st.one_of(
    # The ends of windows, and one microsecond after them, when those without lateness have expired.
    st.sampled_from([time + 1 for time in (0, 10 * SECOND, 15 * SECOND, 20 * SECOND, MAX_MICROS - 1)]),
    st.integers(0, 50).map(lambda seconds: seconds * SECOND),
)
EVENTS = st.lists(
    st.one_of(
        ELEMENTS.map(lambda elements: ("elements", elements)),
        ELEMENTS.map(lambda elements: ("folded", elements)),
        TIMES.map(lambda time: ("watermark", time)),
        st.integers(0, 20).map(lambda seconds: ("clock", seconds * SECOND)),
        st.sampled_from([("whole", None), ("changes", None), ("restore", None), ("look", None), ("signal", "now")]),
    ),
    max_size=12,
)
BY_COUNT = AfterWatermark(late=AfterCount(2))
EVERY = AfterWatermark(late=Every())
TRIGGERS = [DefaultTrigger(), Never(), AfterWatermark(), BY_COUNT, AfterWatermark(late=AfterSignal("now")), EVERY]
AB = ("elements", [("a", 1, 1), ("b", 2, 2)])


@example(
    # Both keys are recorded, and one at a time is fired.
    events=[AB, ("whole", None), ("watermark", 10 * SECOND + 1), ("changes", None)],
    window_fn=FixedWindows(10),
    trigger=BY_COUNT,
    mode=DISCARDING,
    lateness=0,
    combine=Slow(),
    most=1,
)
@example(
    # A complete window without a pane holds the output watermark for its keys.
    events=[("elements", [("a", 1, 20)]), ("watermark", 30 * SECOND), ("look", None)],
    window_fn=FixedWindows(10),
    trigger=Never(),
    mode=DISCARDING,
    lateness=0,
    combine=sum,
    most=1,
)
@example(
    # The trigger of late panes fires by event time, and there is nothing new.
    events=[AB, ("watermark", 10 * SECOND), ("watermark", 14 * SECOND)],
    window_fn=FixedWindows(10),
    trigger=EVERY,
    mode=DISCARDING,
    lateness=7,
    combine=min,
    most=1,
)
@example(
    # It fires by processing time, and the keys have a state each by then.
    events=[AB, ("watermark", 10 * SECOND), ("elements", [("a", 1, 1)]), ("clock", 4 * SECOND)],
    window_fn=FixedWindows(10),
    trigger=EVERY,
    mode=ACCUMULATING,
    lateness=7,
    combine=sum,
    most=1,
)
@given(
    events=EVENTS,
    window_fn=st.sampled_from([FixedWindows(10), SlidingWindows(10, 5), GlobalWindows()]),
    trigger=st.sampled_from(TRIGGERS),
    mode=st.sampled_from([DISCARDING, ACCUMULATING]),
    lateness=st.sampled_from([0, 7]),
    combine=st.sampled_from([sum, None, MeanCombineFn(), Slow()]),
    most=st.sampled_from([1, 2, 5, 1000]),
)
def test_panes_and_snapshots_are_those_of_windows_with_a_state_for_each_key(
    events: list[Any],
    window_fn: Any,
    trigger: Trigger,
    mode: AccumulationMode,
    lateness: int,
    combine: Any,
    most: int,
) -> None:
    """With elements and accumulators, at any watermark, however many fire at once, and after restarts."""
    # Accumulators aren't sent to a trigger that counts elements.
    assume(trigger != BY_COUNT or all(kind != "folded" for kind, _ in events))
    # Without late panes, elements within the lateness would be lost.
    assume(not lateness or trigger != AfterWatermark())
    windowing = {"trigger": trigger, "accumulation_mode": mode, "allowed_lateness": lateness}
    fold = fold_of(transform_of(combine), window_fn, **windowing)
    one = Player(fold, True, most)
    other = Player(fold, False, 1000)
    for event in [*events, ("watermark", MAX_MICROS)]:
        assert other.play(event) == one.play(event)
        assert other.times() == one.times()
        if event[0] in ("changes", "restore"):
            assert other.rows() == other.stored() == one.stored()
    assert {} == one.stored()


def many(keys: int) -> TriggeredWindows:
    operator = TriggeredWindows(fold_of(beam.CombinePerKey(sum), FixedWindows(10)))
    operator.process(Bundle([(f"k{i}", i) for i in range(keys)], 0, (IntervalWindow(0, 10),)))
    return operator


@pytest.mark.parametrize("keys", [20, 3000])
def test_many_keys_are_recorded_in_columns_without_states(keys: int) -> None:
    """All, then those that have changed, then those that are gone."""
    operator = many(keys)
    expected = {f"k{i}": (i,) for i in range(keys)}
    found = snapshots.by_group(operator.table, True)
    assert {WindowColumns} == {type(records) for _, records in found}
    assert ([], [IntervalWindow(0, 10)]) == (operator.table.states(), list(operator.table.by_window))
    restored = many(0)
    snapshots.restore(restored.table, [record for _, records in found for record in records])
    assert expected == {state.key: (state.accumulator,) for state in restored.table.all()}
    assert [row_of(state) for state in many(1).table.all()] == [
        row_of(state) for state in restored.table.all() if state.key == "k0"
    ]

    operator.process(Bundle([("k1", 5), ("new", 1)], 0, (IntervalWindow(0, 10),)))
    assert {"k1", "new"} == {record.key for record in snapshots.changes(operator.table)}
    operator.process(Bundle([("newer", 1)], 0, (IntervalWindow(0, 10),)))
    operator.advance_watermark(11 * SECOND)
    assert {*expected, "new"} == {record.key for record in snapshots.changes(operator.table) if not record.states}
    assert [] == snapshots.changes(operator.table)


def test_a_window_without_snapshots_logs_no_changes() -> None:
    """A run without checkpoints would keep each key twice."""
    assert [0] == [len(window.changed) for window in many(20).table.by_window.values()]


def test_windows_of_a_snapshot_are_uniform_again() -> None:
    """Those that have not ended; keys that have gone later are said to be gone."""
    operator = many(3)
    operator.process(Bundle([("a", 1), ("b", 2)], 0, (IntervalWindow(10, 20),)))
    restored = many(0)
    snapshots.restore(restored.table, snapshots.snapshot(operator.table))
    restored.advance_watermark(10 * SECOND)
    restored.unify_restored()
    assert [IntervalWindow(0, 10)] == list(restored.table.keyed)
    assert [IntervalWindow(10, 20)] == list(restored.table.by_window)
    restored.process(Bundle([("b", 5), ("c", 3)], 0, (IntervalWindow(10, 20),)))
    window = IntervalWindow(10, 20)
    assert {"b", "c"} == {record.key for record in snapshots.changes(restored.table) if record.window == window}
    restored.advance_watermark(21 * SECOND)
    panes = restored.taken()
    assert panes is not None
    assert {"a": 1, "b": 7, "c": 3} == dict(panes.values[-3:])
    assert {"a", "b", "c"} <= {record.key for record in snapshots.changes(restored.table) if not record.states}


def test_keys_are_separated_only_where_they_may_differ() -> None:
    """The watermark passes one window, and stops at the end of another one, which an element comes for then."""
    operator = many(3)
    for start in (10, 20):
        operator.process(Bundle([("a", 1), ("b", 2)], 0, (IntervalWindow(start, start + 10),)))
    operator.advance_watermark(20 * SECOND)
    assert [IntervalWindow(10, 20), IntervalWindow(20, 30)] == list(operator.table.by_window)
    panes = operator.taken()
    assert panes is not None
    assert ["k0", "k1", "k2", "a", "b"] == [key for key, _ in panes.values]
    assert [True] * 3 + [False] * 2 == [pane.is_last for _, _, _, pane, _ in panes.rows()]
    operator.process(Bundle([("a", 5)], 0, (IntervalWindow(10, 20),)))
    assert [IntervalWindow(10, 20)] == list(operator.table.keyed)
    assert [IntervalWindow(20, 30)] == list(operator.table.by_window)
    operator.advance_watermark(20 * SECOND + 1)
    panes = operator.taken()
    assert panes is not None
    assert [("a", 5)] == panes.values


@pytest.mark.parametrize(
    ("element", "error"),
    [("ab", NotAPairError), (("a", 1, 2), NotAPairError), (([], 1), InvalidKeyError), ((object(), 1), InvalidKeyError)],
)
@pytest.mark.parametrize("window_fn", [FixedWindows(10), SlidingWindows(10, 5)])
def test_elements_that_cannot_be_grouped_are_refused(element: Any, error: type[Exception], window_fn: Any) -> None:
    """In a window that has keys already."""
    operator = TriggeredWindows(fold_of(beam.CombinePerKey(sum), window_fn))
    with pytest.raises(error):
        operator.process(Bundle([("a", 1), element], 5 * SECOND, window_fn.assign_micros(5 * SECOND)))


class SpillingPlayer(Player):
    """An operator whose windows are spilled, and which may be restored between two firings."""

    def __init__(self, fold: Fold, most: int, database: SpillDatabase, is_interrupted: bool) -> None:
        self.database = database
        self.is_interrupted = is_interrupted
        self.spilled: list[Any] = []
        super().__init__(fold, True, most)
        # The entries of the player before.
        database.rocksdb.delete_range(b"\x00", b"\x02")
        self.spilled = self._steps(database)

    def _steps(self, database: SpillDatabase) -> list[Any]:
        table = self.operator.table
        windows, cells = (SpillContext("Label", SpilledEntries(database, number)) for number in range(2))
        spilled = SpilledWindows(table, windows)
        return [spilled, SpilledCells(table, self.fold, spilled.note_gone, cells)]

    def play(self, event: Any) -> Any:
        kind, what = event
        if kind == "spill":
            self.spill(what)
        elif kind in ("elements", "folded"):
            self.spilled[0].load_for(self._bundle(what, kind == "folded"))
        elif kind == "move":
            self.move(what)
        return super().play(event)

    def _fire(self) -> None:
        if self.is_interrupted:
            self.out.append(self.operator.taken())
            self.spill(0.5)
            self._record(not self.records)
            self._restore()
        super()._fire()

    def spill(self, share: float) -> None:
        for step in self.spilled:
            step.spill(share)

    def _record(self, is_whole: bool) -> None:
        windows, cells = self.spilled
        cells.prepare_snapshot()
        windows.use()
        removed = [record for _, own in windows.removed() for record in own]
        if not is_whole:
            self.records = [*self.records, *removed]
        super()._record(is_whole)

    def _restore(self) -> None:
        self._record(False)
        noted = pickle.loads(pickle.dumps([step.noted() for step in self.spilled]))
        self._begin_anew()
        self.spilled = windows, cells = self._steps(SpillDatabase())
        for start in range(0, len(self.records), 5):
            windows.restore(self.records[start : start + 5])
            if start == 5 and len(self.records) % 3 == 0:
                # Memory has no room for them.
                cells.spill(1)
        for step, (number, count, windows) in zip(self.spilled, noted, strict=True):
            step._entries._database = self.database
            step.adopt(number, count, NumberedWindows.of(windows))
        self.operator.unify_restored()
        self.operator.due.look_at_restored()

    def move(self, is_to_memory: bool) -> None:
        """Restore a savepoint, by the operator in memory or by the steps on disk, and spill it from there."""
        self._record(True)
        windows, cells = ([r for _, own in step.records() for r in own] for step in self.spilled)
        self._begin_anew()
        if is_to_memory:
            snapshots.restore(self.operator.table, [*self.records, *windows])
            snapshots.merge_runs(self.operator.table, cells, self.fold.merged)
        self.database.rocksdb.delete_range(b"\x00", b"\x02")
        self.spilled = self._steps(self.database)
        if not is_to_memory:
            for records in (self.records, windows):
                self.spilled[0].restore(records)
            self.spilled[1].restore(cells)
        self.records = []
        self.operator.unify_restored()
        self.operator.due.look_at_restored()


def spilling_events(random: Random, may_be_folded: bool) -> Iterator[tuple[str, Any]]:
    """Yield what happens to an operator whose windows are spilled again and again."""
    kinds = ["elements", "elements", "folded" if may_be_folded else "elements", "watermark", "spill", "spill", "clock"]
    for _ in range(random.randint(2, 14)):
        kind = random.choice([*kinds, "whole", "changes", "restore", "move", "signal"])
        if kind in ("elements", "folded"):
            count = random.randint(1, 8)
            what: Any = [(random.choice("abcd"), random.randint(1, 3), random.randint(0, 40)) for _ in range(count)]
        elif kind == "watermark":
            what = random.choice([10, 15, 20, 25, 30, 50]) * SECOND + random.randint(0, 1)
        elif kind == "clock":
            what = random.randint(0, 20) * SECOND
        else:
            what = {"spill": random.choice([0.5, 1, 1]), "move": random.random() < 0.5, "signal": "now"}.get(kind)
        yield kind, what
    yield "watermark", MAX_MICROS


def test_panes_of_spilled_windows_are_those_of_windows_with_a_state_for_each_key(
    database: SpillDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever they are spilled, and also if the operator is restored, by either backend, between two firings."""
    monkeypatch.setattr(spilled_cells, "_MERGED", 3)
    for seed in range(400):
        random = Random(seed)
        trigger = random.choice(TRIGGERS)
        windowing = {
            "trigger": trigger,
            "accumulation_mode": random.choice([DISCARDING, ACCUMULATING]),
            # Without late panes, elements within the lateness would be lost.
            "allowed_lateness": 0 if trigger == AfterWatermark() else random.choice([0, 7]),
        }
        window_fn = random.choice([FixedWindows(10), SlidingWindows(10, 5), GlobalWindows()])
        fold = fold_of(transform_of(random.choice([sum, None, MeanCombineFn(), Slow()])), window_fn, **windowing)
        one = SpillingPlayer(fold, random.choice([1, 2, 1000]), database, random.random() < 0.5)
        other = Player(fold, False, 1000)
        for event in spilling_events(random, trigger != BY_COUNT):
            assert other.play(event) == one.play(event), (seed, event, windowing)
        assert [0, 0] == [step.number_spilled for step in one.spilled], seed
        assert {} == one.stored(), seed
