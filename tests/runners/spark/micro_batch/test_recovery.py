"""The batch that a run of micro-batches continues from, refusals, and log lines.  Spark isn't needed."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import attrs
import msgspec
import pytest
from support.pipelines.recording import Recording
from support.runners.micro_batches import RunnerInThisProcess

import penstock as beam
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.spark.micro_batch.commit_log import DRIVER, Committed
from penstock.runners.spark.micro_batch.recovery import Recovery
from penstock.runners.spark.micro_batch.sources import DriverSources
from penstock.runners.spark.micro_batch.structured_streaming import StreamSettings
from penstock.runners.spark.micro_batch.unbounded_source import Admission
from penstock.sdk.errors import CheckpointMismatchError, UnknownFormatError


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    store = SnapshotStore(disk_of(str(tmp_path)), str(tmp_path))
    store.take_over()
    return store


POSITIONS: dict[str, Any] = {"sources": {}, "outputs": {}}


def commit(store: SnapshotStore, number: int, positions: Any = POSITIONS, **known: Any) -> None:
    """Commit a batch with staged output for the sink `Table`."""
    store.begin(number)
    committed = Committed(number, 0, f"batch-{number}", {"Table": [b"token"]}, positions, **known)
    store.commit(number, [committed.write(store)], {"parts": {}})


def recovery(store: SnapshotStore, label: str = "Table", allow_dropped_state: bool = False) -> Recovery:
    """Return the recovery of a pipeline whose sink has this label."""
    p = beam.Pipeline("spark-microbatch")
    p | "Numbers" >> beam.Create([1]) | label >> beam.io.Write(Recording())
    plan = fuse(p.graph(), lambda *_: False)
    session: Any = None
    streams = StreamSettings(session, store.directory, store.disk, 0, False, lambda: False)
    return Recovery(store, plan, DriverSources(plan, 1, Admission(), streams), allow_dropped_state)


def newest(recovery: Recovery) -> int | None:
    """Return the number of the batch to continue from."""
    found = recovery.newest()
    return None if found is None else found[1].number


def test_staged_output_of_a_removed_sink_is_refused(store: SnapshotStore) -> None:
    """The run died between the commit and the publication; the sink has another label now."""
    assert newest(recovery(store)) is None
    commit(store, 1)

    with pytest.raises(CheckpointMismatchError, match=r"batch 1 has output of 'Table/?.*', which the pipel"):
        recovery(store, "Rows").newest()
    with pytest.raises(CheckpointMismatchError, match="--allow_dropped_state drops no output"):
        recovery(store, "Rows", allow_dropped_state=True).newest()
    published = attrs.evolve(recovery(store, "Rows", allow_dropped_state=True), is_published=lambda number: number == 1)
    assert 1 == newest(published)
    assert 1 == newest(recovery(store))


def test_a_batch_of_another_version_is_refused_by_name(store: SnapshotStore) -> None:
    """The error names the file, the record, and the versions."""
    store.begin(1)
    written = store.write_part(1, DRIVER, [msgspec.msgpack.encode(["committed batch", 2])])
    store.commit(1, [written], {"parts": {}})

    message = r"\.full: found the record 'committed batch', version 2; expected version 1 of it\. Another version"
    with pytest.raises(UnknownFormatError, match=message):
        recovery(store).newest()


def test_output_that_is_published_again_is_logged(
    store: SnapshotStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The newest manifest is damaged, so a published batch runs again."""
    commit(store, 1)
    commit(store, 2)
    damaged = max(tmp_path.glob("manifest-*"))
    damaged.write_bytes(damaged.read_bytes()[:40])

    assert 1 == newest(recovery(store))
    assert f"{tmp_path}: Continuing from batch 1. Sinks have published batch 2 already, and will publish it again" in (
        caplog.messages
    )


def test_a_run_that_has_ended_is_logged(store: SnapshotStore, caplog: pytest.LogCaptureFixture) -> None:
    """The next start does nothing, and logs the reason."""
    caplog.set_level(logging.WARNING)
    commit(store, 1)
    newest(recovery(store))
    assert [] == caplog.messages

    commit(store, 2, is_last=True, is_complete=True)
    newest(recovery(store))
    (message,) = caplog.messages
    assert message.endswith(
        "has ended with batch 2, and there is nothing left to do. To run the pipeline from the beginning, give another "
        "--checkpoint_dir"
    )


@pytest.mark.parametrize("point", ["after-publication", "after-plan", ""])
def test_a_reader_may_take_files_away_before_a_restart(tmp_path: Path, point: str) -> None:
    """Wherever the driver dies behind the publication, and behind the end of the run."""

    class Died(Exception):
        """The driver has died."""

    store = SnapshotStore(SimulatedDisk(Random(0)), "checkpoints")
    taken: list[str] = []

    def run(dies_at: str = "") -> None:
        def reached(at: str, batch: int) -> None:
            if (at, bool(list(tmp_path.glob("n-*")))) == (dies_at, True):
                raise Died

        p = beam.Pipeline(
            RunnerInThisProcess(store=store, admission=Admission(25), reached=reached, is_restartable=True)
        )
        numbers = p | beam.io.GenerateSequence(0, 100, 1, 1, start_time=0)
        _ = numbers | beam.Map(str) | beam.io.WriteToText(tmp_path / "n")
        p.run()

    def take() -> None:
        for path in tmp_path.glob("n-*"):
            taken.extend(path.read_text().split())
            path.unlink()

    with pytest.raises(Died) if point else nullcontext():
        run(dies_at=point)
    take()
    run()
    take()
    assert list(range(100)) == sorted(map(int, taken))
