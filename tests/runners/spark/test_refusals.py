"""The runners on Spark refuse by name the pipelines that they can't run, without starting Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.catalog import OWNER
from penstock.runners.spark.micro_batch.options import store_of
from penstock.sdk.errors import CheckpointMismatchError, MissingExtraError, OptionsError, UnsupportedError
from penstock.testing import TestPipeline, TestStream


@pytest.mark.parametrize("runner", ["spark-batch", "spark-microbatch"])
def test_a_loop_is_refused_by_name(runner: str) -> None:
    """The error names the runner that has loops."""
    with pytest.raises(UnsupportedError) as raised, TestPipeline(runner) as p:
        p | beam.Create([1]) | "Loop" >> beam.Feedback(beam.Map(lambda n: 2 * n), until=lambda n: n >= 20)

    assert f"Loop/Head: --runner={runner} has no loops; --runner=local runs them" == str(raised.value)


def test_a_script_is_refused_where_no_clock_moves() -> None:
    """By the batch runner."""
    p = TestPipeline("spark-batch")
    p | "Script" >> TestStream().add_elements([1])

    with pytest.raises(UnsupportedError, match="Script: .* is unbounded.*--runner=spark-microbatch or --runner=local"):
        p.run()


OUT = "; leave it out"
WITHOUT = "expected --state_backend=rocksdb, since all state is in memory without it"
WRONG = {
    "--batch_interval=-1": "--batch_interval: expected seconds, 0 or more, got -1.0",
    "--batch_interval=nan": "--batch_interval: expected seconds, 0 or more, got nan",
    "--batch_interval=inf": "--batch_interval: expected seconds, 0 or more, got inf",
    "--max_records_per_batch=0": "--max_records_per_batch: expected at least 1, got 0",
    "--max_bytes_per_batch=-1": "--max_bytes_per_batch: expected at least 1, got -1",
    "--state_memory=1GB": f"--state_memory: {WITHOUT}, got '1GB'",
    "--state_dir=/data": f"--state_dir: {WITHOUT}, got '/data'",
    "--state_backend=rocksdb --state_memory=x": "--state_memory: expected a number of bytes such as 512MB, got 'x'",
    "--state_backend=rocksdb --state_memory=0": "--state_memory: expected at least 1 byte, got '0'",
    "--spark_shuffle_partitions=0": "--spark_shuffle_partitions: expected a number, at least 1, got 0",
    "--parallelism=4": f"--parallelism: --runner=spark-microbatch doesn't support it, only --runner=local does{OUT}",
    "--delivery=strong": f"--delivery: --runner=spark-microbatch doesn't support it, only --runner=local does{OUT}",
}


@pytest.mark.parametrize("flag", WRONG)
def test_an_invalid_or_unsupported_option_is_refused(flag: str) -> None:
    """By its name, before anything starts; an infinite interval once was an error of Python's own."""
    p = beam.Pipeline("spark-microbatch", options=PipelineOptions(flag.split()))
    p | beam.Create([1])

    with pytest.raises(OptionsError) as raised:
        p.run()
    assert f"option {WRONG[flag]}" == str(raised.value)


@pytest.mark.parametrize("name", ["health_port", "on_signal"])
def test_options_of_supervised_jobs_are_refused_in_batch(name: str) -> None:
    """A batch run has no health to serve, and would ignore them."""
    value = {"health_port": "0", "on_signal": "drain"}[name]
    p = beam.Pipeline("spark-batch", options=PipelineOptions([f"--{name}={value}"]))
    p | beam.Create([1])

    with pytest.raises(OptionsError) as raised:
        p.run()
    told = f"option --{name}: --runner=spark-batch doesn't support it, only --runner=local does{OUT}"
    assert told == str(raised.value)


def test_a_state_backend_is_refused_in_batch() -> None:
    """A batch run's groups may be larger than memory in any case."""
    p = beam.Pipeline("spark-batch", options=PipelineOptions(["--state_backend=rocksdb"]))
    p | beam.Create([1])

    with pytest.raises(OptionsError) as raised:
        p.run()
    does = "only --runner=local or --runner=spark-microbatch does"
    assert f"option --state_backend: --runner=spark-batch doesn't support it, {does}{OUT}" == str(raised.value)


@pytest.mark.parametrize("runner", ["local", "spark-microbatch"])
def test_the_state_backend_needs_rocksdb_from_the_start(monkeypatch: pytest.MonkeyPatch, runner: str) -> None:
    """Not only when memory is exhausted."""
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    p = beam.Pipeline(runner, options=PipelineOptions(["--state_backend=rocksdb"]))
    p | TestStream().add_elements([1])

    told = r"--state_backend=rocksdb needs the package 'rocksdict': .*penstock\[rocksdb\]"
    with pytest.raises(MissingExtraError, match=told):
        p.run()


def test_a_shuffle_needs_at_least_one_partition() -> None:
    """A negative number once was an `IndexError` in the middle of the job."""
    p = beam.Pipeline("spark-batch", options=PipelineOptions([], spark_shuffle_partitions=-2))
    p | beam.Create([1])

    with pytest.raises(OptionsError, match="--spark_shuffle_partitions: expected a number, at least 1, got -2"):
        p.run()


LOCAL: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))


def test_a_relative_checkpoint_dir_is_one_place_for_all_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each executor has a working directory of its own; a URL stays unchanged."""
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path / "kept") == store_of(PipelineOptions([], checkpoint_dir="kept/"), LOCAL).directory
    assert "memory://kept" == store_of(PipelineOptions([], checkpoint_dir="memory://kept"), LOCAL).directory


def test_a_directory_with_production_logs_is_refused(tmp_path: Path) -> None:
    """The run would start from the beginning beside them."""
    (tmp_path / OWNER).touch()

    with pytest.raises(CheckpointMismatchError, match="has logs of productions, of --runner=local with --delivery="):
        store_of(PipelineOptions([], checkpoint_dir=str(tmp_path)), LOCAL)
