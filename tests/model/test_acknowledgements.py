"""What a run has read last is acknowledged when the run ends: a queue doesn't deliver it to the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.pipelines.queue_source import Queue, queue_of
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkMicroBatchRunner

RUNNERS: dict[str, dict[str, Any]] = {
    "one worker": {"checkpoint_interval": 3600.0},
    "two workers": {"checkpoint_interval": 3600.0, "parallelism": 2},
    "spawned workers": {"checkpoint_interval": 3600.0, "parallelism": 2, "start_method": "spawn"},
    "without checkpoints": {},
    "strong productions": {"parallelism": 2, "delivery": "strong"},
    "micro-batches": {},
}


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.spark] if name == "micro-batches" else []) for name in RUNNERS]
)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> beam.Pipeline:
    """A pipeline that takes no checkpoint before its end."""
    name, flags = request.param, dict(RUNNERS[request.param])
    if name != "without checkpoints":
        flags["checkpoint_dir"] = str(tmp_path / "kept")
    runner: Any = "local"
    if name == "micro-batches":
        runner = SparkMicroBatchRunner(spark_session=request.getfixturevalue("spark"))
    return beam.Pipeline(runner, options=PipelineOptions([], **flags))


def test_at_the_end_of_the_input(made: beam.Pipeline, tmp_path: Path) -> None:
    """All of it was read."""
    queue = queue_of(tmp_path / "queue", 50)
    _ = made | beam.io.Read(Queue(queue, 50)) | beam.Map(str) | beam.io.WriteToText(tmp_path / "out")
    assert "DONE" == made.run().wait_until_finish()
    lines = [line for file in tmp_path.glob("out*") for line in file.read_text().split()]
    assert list(range(50)) == sorted(map(int, lines))
    assert [] == list(queue.iterdir())


def test_at_the_end_of_a_drained_run(made: beam.Pipeline, tmp_path: Path) -> None:
    """What was read is written, and the rest waits for another run."""
    queue, read = queue_of(tmp_path / "queue", 50), tmp_path / "read"

    def touched(number: int) -> str:
        read.touch()
        return str(number)

    _ = made | beam.io.Read(Queue(queue)) | beam.Map(touched) | beam.io.WriteToText(tmp_path / "out")
    result = made.run()
    wait_until(read.exists, "some of it is read")
    assert "DRAINED" == result.drain()
    lines = {int(line) for file in tmp_path.glob("out*") for line in file.read_text().split()}
    left = {int(path.name) for path in queue.iterdir()}
    assert set(range(50)) == lines | left
    assert not lines & left
