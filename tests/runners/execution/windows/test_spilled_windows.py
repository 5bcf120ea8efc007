"""Windows that are spilled after every step: panes and snapshots are the same."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from transcripts.operator_player import OperatorPlayer
from transcripts.runner import Element, Pane, load, run

from penstock.runners.execution.spilling.rocksdb import SpillDatabase, SpilledEntries
from penstock.runners.execution.windows import snapshots
from penstock.runners.execution.windows.spilled_windows import SpilledWindows
from penstock.runners.execution.windows.triggered_operator import TriggeredWindows
from penstock.sdk.elements.bundle import Bundle


class SpillingPlayer(OperatorPlayer):
    """Spills all windows after each step, and writes a snapshot; after every second step restores from that alone."""

    def __init__(self, transcript: Any, database: SpillDatabase, whole: bool) -> None:
        super().__init__(transcript)
        self._fold = self.operator._fold
        self._whole = whole
        self._database = database
        self._steps = 0
        self._dropped = 0
        self._records: list[Any] = []
        self._spilled = self._new()

    def _new(self) -> SpilledWindows:
        entries = SpilledEntries(self._database, 0)
        # The entries of the player before.
        self._database.rocksdb.delete_range(b"\x00", b"\x01")
        return SpilledWindows(self.operator.table, "Transcript", entries, lambda: None)

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
            self._spilled.spill(1)
            self.operator.due.fire()
            panes += super().taken()
        self._steps += 1
        whole = self._whole or self._steps == 1
        self._spilled.spill(0.5 if self._steps % 3 else 1)
        found = [r for _, records in snapshots.by_group(self.operator.table, whole) for r in records]
        found += [r for _, records in self._spilled.records(whole) for r in records]
        self._records = found if whole else [*self._records, *found]
        self._spilled.spill(1)
        assert 0 == len(self.operator.table)
        if self._steps % 2 == 0:
            self._dropped += self.operator.dropped
            clocks = self.operator.clocks()
            self.operator = TriggeredWindows(self._fold)
            self.operator.set_clocks(clocks)
            self._spilled = self._new()
            self._spilled.restore(pickle.loads(pickle.dumps(self._records)))
        return panes


@pytest.mark.parametrize(("number", "transcript"), list(enumerate(load())), ids=str)
def test_panes_are_the_same_when_all_windows_are_spilled(number: int, transcript: Any, database: SpillDatabase) -> None:
    """They are loaded for their elements, when they are due, and from snapshots: whole ones, or changes."""
    assert [] == run(transcript, SpillingPlayer(transcript, database, whole=number % 2 == 0))
