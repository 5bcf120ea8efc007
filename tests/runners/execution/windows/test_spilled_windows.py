"""Windows that are spilled after every step: panes and snapshots are the same."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from transcripts.operator_player import OperatorPlayer
from transcripts.runner import Element, Pane, load, run

from penstock.runners.execution.spilling.rocksdb import SpillDatabase, SpilledEntries
from penstock.runners.execution.spilling.spilled_step import NumberedWindows, SpillContext
from penstock.runners.execution.windows import snapshots
from penstock.runners.execution.windows.spilled_cells import SpilledCells
from penstock.runners.execution.windows.spilled_windows import SpilledWindows
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk.elements.bundle import Bundle


class SpillingPlayer(OperatorPlayer):
    """Spills windows after each step, and takes a snapshot; after every second step restores from that alone."""

    def __init__(self, transcript: Any, database: SpillDatabase, whole: bool) -> None:
        super().__init__(transcript)
        self._fold = self.operator._fold
        self._whole = whole
        self._database = database
        self._steps = 0
        self._dropped = 0
        self._records: list[Any] = []
        self._spilled, self._cells = self._new()

    def _new(self) -> tuple[SpilledWindows, SpilledCells | None]:
        # The entries of the player before.
        self._database.rocksdb.delete_range(b"\x00", b"\x02")
        return self._steps_in(self._database)

    def _steps_in(self, database: SpillDatabase) -> tuple[SpilledWindows, SpilledCells | None]:
        table = self.operator.table
        windows, cells = (SpillContext("Transcript", SpilledEntries(database, number)) for number in range(2))
        spilled = SpilledWindows(table, windows)
        return spilled, None if table.is_merging else SpilledCells(table, self._fold, spilled.note_gone, cells)

    def _spill(self, share: float) -> None:
        self._spilled.spill(share)
        if self._cells is not None:
            self._cells.spill(share)

    @property
    def dropped(self) -> int:
        return self._dropped + self.operator.dropped

    def elements(self, elements: list[Element]) -> list[Pane]:
        times = [element.timestamp for element in elements]
        windows = [self.windowing.window_fn.assign_micros(time) for time in times]
        self._spilled.load_for(Bundle([(element.key, element.value) for element in elements], times, windows))
        return super().elements(elements)

    def taken(self) -> list[Pane]:
        panes = super().taken()
        while self.operator.due.is_due:
            self._spill(1)
            self.operator.due.fire(1)
            panes += super().taken()
        self._steps += 1
        whole = self._whole or self._steps == 1
        self._spill(0.5 if self._steps % 3 else 1)
        if self._cells is not None:
            self._cells.prepare_snapshot()
        self._spilled.use()
        found = [] if whole else [r for _, records in self._spilled.removed() for r in records]
        found += [r for _, records in snapshots.by_group(self.operator.table, whole) for r in records]
        self._records = found if whole else [*self._records, *found]
        if self._steps % 2 == 0:
            self._restore()
        self._spill(1)
        assert 0 == len(self.operator.table)
        return panes

    def _restore(self) -> None:
        """Restore what was in memory from the records; the database is as it was."""
        noted = [None if step is None else step.noted() for step in (self._spilled, self._cells)]
        before = self._shown()
        self._dropped += self.operator.dropped
        clocks = self.operator.clocks()
        self.operator = TriggeredWindows(self._fold)
        self.operator.set_clocks(clocks)
        self._spilled, self._cells = self._steps_in(SpillDatabase())
        self._spilled.restore(pickle.loads(pickle.dumps(self._records)))
        for step, own in zip((self._spilled, self._cells), noted, strict=True):
            if step is not None and own is not None:
                number, count, windows = own
                step._entries._database = self._database
                step.adopt(number, count, NumberedWindows.of(pickle.loads(pickle.dumps(windows))))
        self.operator.unify_restored()
        assert before == self._shown()

    def _shown(self) -> list[str]:
        steps = [self._spilled, *([] if self._cells is None else [self._cells])]
        return sorted(
            repr((r.key, r.window, r.states)) for step in steps for _, records in step.records() for r in records
        )


@pytest.mark.parametrize(("number", "transcript"), list(enumerate(load())), ids=str)
def test_panes_are_the_same_when_all_windows_are_spilled(number: int, transcript: Any, database: SpillDatabase) -> None:
    """They are loaded for their elements, when they are due, and from snapshots: whole ones, or changes."""
    assert [] == run(transcript, SpillingPlayer(transcript, database, whole=number % 2 == 0))
