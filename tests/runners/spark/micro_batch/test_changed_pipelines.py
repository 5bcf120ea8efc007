"""Micro-batches that continue with a changed pipeline find state by labels and lose nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.pipelines.recording import Recording
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.spark.micro_batch.unbounded_source import Admission
from penstock.windowing import FixedWindows

NUMBERS = 60
EXPECTED = [sum(range(start, start + 10)) for start in range(0, NUMBERS, 10)]


class Died(Exception):
    """The driver has died."""


def sums(p: Any, label: str, *more: beam.PTransform) -> Any:
    """Sums of one number a second, in windows of ten seconds, with optional steps before."""
    numbers = p | f"{label} numbers" >> beam.io.GenerateSequence(0, NUMBERS, 1, 1, start_time=0)
    keyed = numbers | f"{label} keyed" >> beam.WithKeys(label)
    for transform in more:
        keyed |= f"{label} {transform.default_label()}" >> transform
    windowed = keyed | f"{label} windows" >> beam.WindowInto(FixedWindows(10))
    return windowed | f"{label} sum" >> beam.CombinePerKey(sum) | f"{label} alone" >> beam.Values()


@pytest.fixture
def run() -> Callable[..., None]:
    """`run(build, dies_at)` runs a pipeline with checkpoints on one disk and 25 numbers in a batch."""
    disk = SimulatedDisk(Random(0))

    def run(build: Callable[[Any], Any], dies_at: tuple[str, int] = ("", 0)) -> None:
        def reached(point: str, batch: int) -> None:
            if (point, batch) == dies_at:
                raise Died

        store = SnapshotStore(disk, "checkpoints")
        p = beam.Pipeline(RunnerInThisProcess(store=store, admission=Admission(25), reached=reached))
        build(p)
        p.run()

    return run


@pytest.mark.parametrize("point", ["after-plan", "after-manifest"])
def test_a_new_source_that_is_built_first_starts_at_its_beginning(run: Callable[..., None], point: str) -> None:
    """Its PCollection has the id that another one had.  It once got that one's watermark, so its elements were late."""
    old, new = Recording(), Recording()

    def with_another(p: Any) -> None:
        sums(p, "new") | "new out" >> beam.io.Write(new)
        sums(p, "old") | "old out" >> beam.io.Write(old)

    with pytest.raises(Died):
        run(lambda p: sums(p, "old") | "old out" >> beam.io.Write(old), (point, 2))
    run(with_another)

    assert EXPECTED == sorted(change.value for change in old.changes)
    assert EXPECTED == sorted(change.value for change in new.changes)


def test_state_is_found_where_the_step_is_now(run: Callable[..., None]) -> None:
    """A shuffle before it moves it to the next task, which once restored only the parts that task had written."""
    sink = Recording()
    with pytest.raises(Died):
        run(lambda p: sums(p, "its") | beam.io.Write(sink), ("after-manifest", 1))
    run(lambda p: sums(p, "its", beam.Reshuffle()) | beam.io.Write(sink))

    assert EXPECTED == sorted(change.value for change in sink.changes)
