"""Micro-batches whose keys have another type than those of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.pipelines.recording import recorded
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import CheckpointMismatchError
from penstock.testing import TestStream
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GlobalWindows


class Stopped(Exception):
    """The run fails after some of its batches."""


def sums(key_of: Callable[[int], Any]) -> Callable[[Any], Any]:
    """Sums of numbers that arrive one by one."""
    stream = TestStream()
    for n in range(20):
        stream = stream.add_elements([n]).advance_watermark_to(n)
    each = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.ACCUMULATING
    )
    return lambda p: p | stream | beam.Map(lambda n: (key_of(n), n)) | each | "Sums" >> beam.CombinePerKey(sum)


@pytest.mark.parametrize("memory", [None, 1], ids=["in memory", "spilled"])
def test_keys_of_another_type_are_refused_by_name(memory: int | None) -> None:
    """Also with spilled state; a run with the same type of keys continues."""

    def reached(point: str, number: int) -> None:
        if point == "after-manifest" and number == 6:
            raise Stopped

    store = SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")
    with pytest.raises(Stopped):
        recorded(sums(lambda n: n % 2), RunnerInThisProcess(2, memory, store=store, reached=reached))
    with pytest.raises(
        CheckpointMismatchError, match="Sums: its keys are of type str, and those in the checkpoint of type number"
    ):
        recorded(sums(lambda n: str(n % 2)), RunnerInThisProcess(2, memory, store=store))
    found = recorded(sums(lambda n: n % 2), RunnerInThisProcess(3, memory, store=store))
    assert {(0, 90), (1, 100)} <= {change.value for change in found.changes}
