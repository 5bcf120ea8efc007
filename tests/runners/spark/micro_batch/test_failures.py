"""Micro-batches that fail at the worst moments have the output of a run without failures."""

from __future__ import annotations

import pathlib
from typing import Any

import attrs
import pytest
from kills.killed_pipeline import build
from kills.killing import KilledRun

import penstock as beam
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.runners.spark.micro_batch.commit_log import DRIVER_POINTS, TASK_POINTS
from penstock.sdk.errors import PenstockError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runner import PipelineState

NUMBERS = 2000


class Failed(Exception):
    """A failure at a failpoint."""


@attrs.frozen
class FailAt:
    """Fails at a failpoint of a batch, on the driver or in a worker."""

    point: str
    batch: int

    def __call__(self, point: str, batch: int) -> None:
        if (point, batch) == (self.point, self.batch):
            raise Failed(f"{point} {batch}")


@attrs.define
class Restarted:
    """A stream with checkpoints, tables and files in a directory, which is started several times.

    Attributes:
      run: the stream with its expected output.
    """

    spark: Any
    run: KilledRun

    def start(self, reached: Any = None, **options: Any) -> Any:
        """Start the stream, or start it again."""
        directory = str(self.run.directory)
        given = PipelineOptions([], checkpoint_dir=f"{directory}/kept", max_records_per_batch=200, **options)
        p = beam.Pipeline(SparkMicroBatchRunner(self.spark, reached), options=given)
        build(p, self.run.start_time, self.run.numbers, self.run.rate, directory)
        return p.run()

    def finish(self) -> None:
        """Run the stream to its end, and return its output."""
        assert PipelineState.DONE == self.start().wait_until_finish()
        self.run.check_end()

    @property
    def batches(self) -> int:
        """Return the number of committed batches."""
        manifests = (self.run.directory / "kept").glob("manifest-*")
        return max((int(path.name.split("-")[1]) for path in manifests), default=0)


@pytest.fixture
def stream(spark: Any, tmp_path: pathlib.Path) -> Restarted:
    """A stream that has not been started."""
    run = KilledRun(tmp_path, seconds=NUMBERS / 1000)
    # All numbers are available from the start.
    run.start_time -= 60
    return Restarted(spark, run)


def test_a_run_may_fail_at_every_point_of_its_commits(stream: Restarted) -> None:
    """Each failpoint in turn: before and after writing the plan, state files and the manifest, and publishing."""
    for point in ("before-plan", "after-plan", *TASK_POINTS, *DRIVER_POINTS[2:]):
        before = stream.batches
        with pytest.raises((Failed, PenstockError), match=f"{point} {before + 2}"):
            stream.start(FailAt(point, before + 2)).wait_until_finish()
        stream.run.check_so_far()
    stream.finish()
