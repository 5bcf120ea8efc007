"""Micro-batches that continue with changed sources."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.pipelines.recording import Recording
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.spark.micro_batch.unbounded_source import Admission
from penstock.sdk.errors import CheckpointMismatchError
from penstock.testing import TestStream

NUMBERS = 120


class Died(Exception):
    """Stands for the death of the driver."""


@pytest.fixture
def run() -> Callable[..., list[Any]]:
    """`run(read, dies_at)` runs a pipeline with checkpoints on one disk, and returns its output."""
    disk, sink = SimulatedDisk(Random(0)), Recording()

    def run(read: Any, dies_at: tuple[str, int] = ("", 0), **settings: Any) -> list[Any]:
        def reached(point: str, batch: int) -> None:
            if (point, batch) == dies_at:
                raise Died

        store = SnapshotStore(disk, "checkpoints")
        p = beam.Pipeline(
            RunnerInThisProcess(store=store, admission=Admission(20), reached=reached, is_restartable=True, **settings)
        )
        p | "Read" >> read | beam.io.Write(sink)
        p.run()
        return [change.value for change in sink.changes]

    return run


def numbers(partitions: int = 1, start: int = 0, stop: int = NUMBERS) -> Any:
    return beam.io.GenerateSequence(start, stop, 1, 1, start_time=0, partitions=partitions)


@pytest.mark.parametrize("point", ["after-plan", "before-manifest", "after-manifest"])
def test_a_sequence_resumes_with_other_partitions(run: Callable[..., Any], point: str) -> None:
    """A batch that was planned for the old files is planned again."""
    for partitions, batch in ((1, 2), (3, 3), (2, 4)):
        with pytest.raises(Died):
            run(numbers(partitions), (point, batch))

    assert list(range(NUMBERS + 7)) == sorted(run(numbers(4, stop=NUMBERS + 7)))


CHANGES: dict[str, tuple[Any, Any, str]] = {
    "start": (numbers(), numbers(start=5), r"start \(then: 0; now: 5\)"),
    "values": (beam.Create([1]), beam.Create([2]), r"values \(then: 1 value, digest \w+; now: 1 value, digest \w+\)"),
    "script": (
        TestStream().add_elements([1]).advance_watermark_to(5).add_elements([2]),
        TestStream().add_elements([2]).advance_watermark_to(5).add_elements([2]),
        r"events \(then: 3 values, digest \w+; now: 3 values, digest \w+\)",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_cannot_resume_is_refused_by_name(run: Callable[..., Any], change: str) -> None:
    """The refusal changes nothing."""
    first, second, expected = CHANGES[change]
    with pytest.raises(Died):
        run(first, ("after-manifest", 1))
    with pytest.raises(CheckpointMismatchError, match=rf"'Read.*': {expected}\..*--allow_changed_sources"):
        run(second)

    whole = {"start": range(NUMBERS), "values": [1], "script": [1, 2]}
    assert list(whole[change]) == run(first)


def test_a_changed_source_is_read_from_the_beginning_where_state_may_be_dropped(run: Callable[..., Any]) -> None:
    """It is read from its beginning."""
    with pytest.raises(Died):
        run(numbers(), ("after-manifest", 1))

    assert [*range(20), *range(5, NUMBERS)] == run(numbers(start=5), allow_dropped_state=True)


def test_a_source_may_be_at_another_address(run: Callable[..., Any], tmp_path: Path) -> None:
    """It resumes from its position."""
    for name in ("here.db", "there.db"):
        connection = sqlite3.connect(tmp_path / name)
        connection.execute("CREATE TABLE t (id)")
        connection.executemany("INSERT INTO t VALUES (?)", [(i,) for i in range(30)])
        connection.commit()
        connection.close()

    def table(name: str) -> Any:
        rows = beam.io.ReadFromSQL(tmp_path / name, "t", increasing_column="id", poll_interval=0)
        return Ids(rows)

    with pytest.raises(Died):
        run(table("here.db"), ("after-manifest", 1))
    with pytest.raises(CheckpointMismatchError, match=r"database \(then: .*here.db'; now: .*there.db'\)"):
        run(table("there.db"), available_now=True)

    assert list(range(30)) == run(table("there.db"), allow_changed_sources=True, available_now=True)


def test_a_batch_whose_files_have_changed_is_planned_again(run: Callable[..., Any], tmp_path: Path) -> None:
    """Its ranges are those of the old files, and none of it is committed."""
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{i}\n" for i in range(1000)))
    with pytest.raises(Died):
        run(beam.io.ReadFromText(path), ("before-manifest", 1))
    path.write_text("".join(f"{i}\n" for i in range(2000)))

    assert list(map(str, range(2000))) == run(beam.io.ReadFromText(path))


class Ids(beam.PTransform):
    """The ids of rows."""

    def __init__(self, rows: Any) -> None:
        super().__init__()
        self.rows = rows

    def expand(self, p: Any) -> Any:
        return p | self.rows | beam.Map(lambda row: row.id)
