"""Keyed state on disk."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.execution.stateful_pardo import Work

import penstock as beam
from penstock.runners.execution.spilling.rocksdb import SpillDatabase, SpilledEntries
from penstock.runners.execution.state.spilled_state import SpilledState
from penstock.sdk.errors import CheckpointMismatchError
from penstock.sdk.userstate import ReadModifyWriteStateSpec


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
    spilled = executor.spilled = SpilledState(
        executor.state, "Keep", SpilledEntries(database, 0), lambda: None, lambda keys: None
    )
    work.process(("a", 1))
    spilled.spill(1)
    monkeypatch.delattr(sys.modules[__name__], "Value")
    with pytest.raises(CheckpointMismatchError, match=r"Keep: an entry of its state, .* can't be read: .*'Value'"):
        work.process(("a", 2))
