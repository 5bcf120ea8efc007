"""The conformance suite of runners: ours pass it, and the example of one on Dask."""

from __future__ import annotations

import copyreg
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import penstock as beam
from penstock.examples.dask_runner import DaskRunner
from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner
from penstock.sdk.errors import UnsupportedError
from penstock.sdk.runner import Runner
from penstock.testing.runner_suite import RunnerSuite


@contextmanager
def pickled_as_before() -> Iterator[None]:
    """Undo what Dask does in the whole process: exceptions are pickled without what only their constructors set."""
    before = dict(copyreg.dispatch_table)
    try:
        yield
    finally:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update(before)


class TestLocal(RunnerSuite):
    runner = "local"


class TestLocalWorkers(RunnerSuite):
    runner = "local"
    flags = ("--parallelism=2",)
    survives_lost_workers = True


class TestLocalStreams(RunnerSuite):
    """Jobs with checkpoints, for bounded input as well."""

    runner = "local"
    survives_lost_workers = True

    @pytest.fixture(autouse=True)
    def checkpoints(self, tmp_path: pathlib.Path) -> None:
        kept = tmp_path / "checkpoints"
        self.flags = ("--parallelism=2", f"--checkpoint_dir={kept}", "--checkpoint_interval=0.2", "--restart_delay=0")


class TestSparkBatch(RunnerSuite):
    runner = SparkBatchRunner

    @pytest.fixture(autouse=True)
    def session(self, spark: Any) -> None:
        self.spark = spark

    def make_runner(self) -> Runner:
        return SparkBatchRunner(self.spark)


class TestSparkMicroBatches(RunnerSuite):
    runner = SparkMicroBatchRunner

    @pytest.fixture(autouse=True)
    def session(self, spark: Any) -> None:
        self.spark = spark

    def make_runner(self) -> Runner:
        return SparkMicroBatchRunner(self.spark)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A client of a cluster with two workers, which a nanny starts again when they are killed."""
    with pickled_as_before():
        from dask.distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            yield client


class TestDask(RunnerSuite):
    runner = DaskRunner
    survives_lost_workers = True

    @pytest.fixture(autouse=True)
    def client(self, dask: Any) -> None:
        self.dask = dask

    def make_runner(self) -> Runner:
        return DaskRunner(self.dask)


def test_a_pipeline_is_refused_before_a_cluster_is_started_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the example on Dask."""

    def connected(self: DaskRunner, workers: int) -> None:
        raise AssertionError("it has connected")

    monkeypatch.setattr(DaskRunner, "_connected", connected)
    p = beam.Pipeline(runner=DaskRunner())
    _ = p | "Ticks" >> beam.io.GenerateSequence(0, None, 10, 1)
    with pytest.raises(UnsupportedError, match="Ticks.*its output is unbounded, and --runner=dask"):
        p.run()
