"""Snapshots of windows: the panes are the same if the operator is taken apart and put together after each step."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from support.execution.groupings import fold_of
from transcripts.operator_player import OperatorPlayer
from transcripts.runner import Pane, load, run

import penstock as beam
from penstock.runners.execution.windows import snapshots
from penstock.runners.execution.windows.snapshots import WindowColumns, WindowRecord, row_of
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk.elements.bundle import Bundle
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark
from penstock.windowing import FixedWindows, IntervalWindow


class RestoredPlayer(OperatorPlayer):
    """After each step all that is left of the operator is the pickle of a snapshot and of the changes since."""

    def __init__(self, transcript: Any, whole: bool) -> None:
        super().__init__(transcript)
        self._fold = self.operator._fold
        self._whole = whole
        self._records = snapshots.snapshot(self.operator.table)
        self._dropped = 0

    @property
    def dropped(self) -> int:
        return self._dropped

    def taken(self) -> list[Pane]:
        panes = super().taken()
        if self._whole:
            self._records = snapshots.snapshot(self.operator.table)
        else:
            self._records = [*self._records, *snapshots.changes(self.operator.table)]
        self._records, clocks = pickle.loads(pickle.dumps((self._records, self.operator.clocks())))
        self._dropped += self.operator.dropped
        self.operator = TriggeredWindows(self._fold)
        self.operator.set_clocks(clocks)
        snapshots.restore(self.operator.table, self._records)
        self.operator.table.changed = {}
        return panes


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "changes"])
@pytest.mark.parametrize("transcript", load(), ids=str)
def test_panes_are_the_same_when_the_operator_is_restored_after_each_step(transcript: Any, whole: bool) -> None:
    """All that triggers, merges and panes need is in the snapshot or in the changes since."""
    assert [] == run(transcript, RestoredPlayer(transcript, whole))


def windows() -> TriggeredWindows:
    return TriggeredWindows(fold_of(beam.CombinePerKey(sum), FixedWindows(10)))


def bundle(*pairs: tuple[str, float]) -> Bundle:
    return Bundle(list(pairs), 0, (IntervalWindow(0, 10),))


def test_only_what_has_changed_is_in_the_changes() -> None:
    """Keys that nothing has come for aren't written again."""
    operator = windows()
    operator.process(bundle(("a", 1), ("b", 1)))
    assert {"a", "b"} == {record.key for record in snapshots.snapshot(operator.table)}
    operator.process(bundle(("b", 1)))
    assert ["b"] == [record.key for record in snapshots.changes(operator.table)]
    assert [] == snapshots.changes(operator.table)


def test_what_has_expired_is_said_to_be_gone() -> None:
    """A chain of changes doesn't restore it."""
    operator = windows()
    operator.process(bundle(("a", 1)))
    records = snapshots.snapshot(operator.table)
    operator.advance_watermark(20_000_000)
    changes = snapshots.changes(operator.table)
    assert [WindowRecord("a", IntervalWindow(0, 10), ())] == changes
    restored = windows()
    snapshots.restore(restored.table, [*records, *changes])
    assert [] == restored.table.all()


def test_changes_come_after_a_snapshot() -> None:
    """Before one there is nothing that they could be changes of."""
    with pytest.raises(RuntimeError, match="no snapshot"):
        snapshots.changes(windows().table)


def test_columns_keep_what_is_equal_apart() -> None:
    """A key whose maximum is `True` beside those with `1` and `1.0`: through a pickle each is what it was."""
    operator = TriggeredWindows(fold_of(beam.CombinePerKey(max), FixedWindows(10)))
    operator.process(bundle(("a", 1), ("b", True), ("c", 1.0)))
    states = operator.table.all()
    found = WindowColumns.of([state.key for state in states], zip(*map(row_of, states)))
    assert repr(found.columns()) == repr(WindowColumns.of_states(states).columns())
    columns = pickle.loads(pickle.dumps(found))
    snapshots.restore(operator.table, columns)

    found = {state.key: repr(state.accumulator) for state in operator.table.all()}
    assert {"a": "1", "b": "True", "c": "1.0"} == found


@pytest.mark.parametrize("keys", [20, 3000])
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.RETRACTING])
def test_windows_of_few_and_of_many_keys_are_restored_as_they_were(keys: int, mode: AccumulationMode) -> None:
    """Windows without a pane, windows with an early one, and removed ones."""
    windowing = {"trigger": AfterWatermark(early=AfterCount(2)), "accumulation_mode": mode}
    fold = fold_of(beam.CombinePerKey(sum), FixedWindows(10), **windowing)
    operator = TriggeredWindows(fold)
    snapshots.snapshot(operator.table)
    first, second, third = ((IntervalWindow(start, start + 10),) for start in (0, 10, 20))
    all_keys = [f"k{i}" for i in range(keys)]

    def process(count: int, windows: Any) -> None:
        operator.process(Bundle([(key, 1) for key in all_keys[:count]], windows[0].start.micros, windows))

    for window in (first, second, third):
        # Other tuples of the same windows.
        process(keys, window)
        process(keys // 2, (IntervalWindow(window[0].start, window[0].end),))
    operator.advance_watermark(9_000_000)
    restored = TriggeredWindows(fold)
    records = list(snapshots.changes(operator.table))
    operator.advance_watermark(15_000_000)
    process(keys // 3, second)
    records = pickle.loads(pickle.dumps(records + snapshots.changes(operator.table)))
    snapshots.restore(restored.table, records)
    expected, found = ({(s.key, s.window): row_of(s) for s in each.table.all()} for each in (operator, restored))
    assert expected == found
    assert 2 * keys == len(found)
