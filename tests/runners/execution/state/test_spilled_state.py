"""Keyed state on disk."""

from __future__ import annotations

import pickle
import sys
from random import Random
from typing import Any

import pytest
from support.execution.stateful_pardo import Work

import penstock as beam
from penstock.runners.execution.spilling.rocksdb import SpillDatabase, SpilledEntries
from penstock.runners.execution.spilling.spilled_step import NumberedWindows, SpillContext
from penstock.runners.execution.state import spilled_state
from penstock.runners.execution.state.keyed_state import KeyedState
from penstock.runners.execution.state.spilled_state import SpilledState
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import CheckpointMismatchError
from penstock.sdk.userstate import ReadModifyWriteStateSpec
from penstock.windowing import GlobalWindow, IntervalWindow

WINDOWS = [IntervalWindow(0, 10), IntervalWindow(10, 20), GlobalWindow()]


class Value:
    """A value of a user's own."""


class Keep(beam.DoFn):
    """Keeps such a value."""

    LAST = ReadModifyWriteStateSpec("last")

    def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> None:
        if last.read() is None:
            last.write(Value())


def test_a_class_that_is_missing_is_named(database: SpillDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the key comes: a restart reads no entries."""
    database.rocksdb.delete_range(b"\x00", b"\x01")
    work = Work(Keep())
    executor = work.executor
    spilled = executor.spilled = SpilledState(executor.state, SpillContext("Keep", SpilledEntries(database, 0)))
    work.process(("a", 1))
    spilled.spill(1)
    monkeypatch.delattr(sys.modules[__name__], "Value")
    with pytest.raises(CheckpointMismatchError, match=r"Keep: an entry of its state, .* can't be read: .*'Value'"):
        work.process(("a", 2))


class History:
    """State that is spilled, recorded and restored by chance, beside a dictionary of its values."""

    def __init__(self, random: Random, database: SpillDatabase) -> None:
        self.random = random
        self.database = database
        self.expected: dict[tuple[Any, Any, str], Any] = {}
        self.chain: list[Any] = []
        database.rocksdb.delete_range(b"\x00", b"\x01")
        self._begin()

    def _begin(self) -> None:
        self.state = KeyedState(tracking=True)
        entries = SpilledEntries(self.database, 0)
        self.spilled = SpilledState(self.state, SpillContext("Label", entries))

    def change(self) -> None:
        """Write, append or remove values of keys, in a bundle."""
        window = self.random.choice(WINDOWS)
        keys = self.random.sample(range(8), self.random.randint(1, 4))
        self.spilled.load_for(Bundle([(key, None) for key in keys], 0, (window,)))
        for key in keys:
            name = self.random.choice(["value", "other"])
            if self.random.random() < 0.3:
                self.state.column(window, name).remove(key)
                self.expected.pop((window, key, name), None)
            else:
                value = self.expected[window, key, name] = self.random.random()
                self.state.column(window, name).put(key, value)

    def spill(self) -> None:
        self.spilled.spill(self.random.choice([0.3, 0.6, 1]))

    def record(self) -> None:
        """Append the changes to the chain."""
        removed = [change for _, own in self.spilled.removed() for change in own]
        self.chain = pickle.loads(pickle.dumps([*self.chain, *removed, *self.state.changes()]))

    def restore(self) -> None:
        self.record()
        number, count, windows = pickle.loads(pickle.dumps(self.spilled.noted()))
        of_chain = KeyedState()
        of_chain.restore(self.chain)
        recorded = {(change.namespace, change.key, change.name) for change in of_chain.snapshot()}
        on_disk = {
            (window, key, name)
            for _, entries in self.spilled._entries.by_group()
            for window, key, name, _, _ in spilled_state.records_in(entries, NumberedWindows.of(windows))
        }
        assert set() == recorded & on_disk
        assert self.expected.keys() == recorded | on_disk
        self._begin()
        self.spilled.restore(self.chain)
        self.spilled.adopt(number, count, NumberedWindows.of(windows))

    def check(self) -> None:
        """Load everything, and compare."""
        for window in WINDOWS:
            self.spilled.load_for(Bundle([(key, None) for key in range(8)], 0, (window,)))
        found = {(c.namespace, c.key, c.name): c.value for c in self.state.snapshot()}
        assert self.expected == found
        assert 0 == self.spilled.number_spilled


def test_a_value_is_in_memory_or_on_disk_and_in_a_chain_once(database: SpillDatabase) -> None:
    """Whenever it is changed, spilled, loaded, recorded and restored."""
    for seed in range(300):
        random = Random(seed)
        history = History(random, database)
        for _ in range(random.randint(3, 25)):
            random.choice([history.change, history.change, history.spill, history.record, history.restore])()
        history.check()
