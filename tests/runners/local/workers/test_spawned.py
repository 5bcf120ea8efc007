"""Workers with interpreters of their own: nothing of the program is inherited, and nothing of it runs again."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
from typing import Any

import pytest
from support.programs.running_program import RunningProgram, wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.coders import VarIntCoder, registry
from penstock.sdk.errors import PenstockError
from penstock.sdk.metrics import Metrics, MetricsFilter
from penstock.testing import TestPipeline, assert_that, equal_to

KEYED = MetricsFilter().with_name("keyed")


def keyed(n: int) -> tuple[int, int]:
    """A number by its remainder, and counted: a check in a worker that gets no elements would not fail."""
    Metrics.counter("test", "keyed").inc()
    return n % 7, n


def test_results_are_those_of_forked_workers() -> None:
    """Sums by key, over a shuffle between two interpreters."""
    with TestPipeline(options=PipelineOptions(parallelism=3, workers=2, start_method="spawn")) as p:
        numbers = p | beam.Create(range(1000)) | beam.Map(keyed) | beam.CombinePerKey(sum)
        assert_that(numbers, equal_to([(key, sum(range(key, 1000, 7))) for key in range(7)]))
    assert [1000] == [counter.committed for counter in p.result.metrics().query(KEYED)["counters"]]


class Remainder:
    """A key that only its coder can compare."""

    def __init__(self, number: int) -> None:
        self.number = number


class RemainderCoder(VarIntCoder):
    def encode(self, value: Any) -> bytes:
        return super().encode(value.number)


def test_workers_know_of_registered_coders() -> None:
    """Though the program that registers them doesn't run in them."""
    before = registry.registered()
    registry.register_coder(Remainder, RemainderCoder)
    try:
        with TestPipeline(options=PipelineOptions(parallelism=2, workers=2, start_method="spawn")) as p:
            pairs = p | beam.Create(range(100)) | beam.Map(lambda n: (Remainder(n % 7), n))
            sums = pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, total: (key.number, total))
            assert_that(sums, equal_to([(key, sum(range(key, 100, 7))) for key in range(7)]))
    finally:
        registry.register_all(before)


PROGRAM = """
import os
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from beside import doubled

print("the program runs", flush=True)

def by_process(n):
    return os.getpid(), doubled(n)

# No `if __name__ == "__main__"`: workers don't run this.
with beam.Pipeline(options=PipelineOptions()) as p:
    pairs = p | beam.Create([1, 2], reshuffle=False) | beam.Map(by_process)
    _ = pairs | beam.Map(lambda pair: print(pair[1], pair[0] != PID, flush=True))
""".replace("PID", "int(os.environ['STARTER'])")


def test_the_program_does_not_run_again_in_a_worker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions are there all the same, and modules beside it can be imported."""
    (tmp_path / "beside.py").write_text("def doubled(n):\n    return 2 * n\n")
    monkeypatch.setenv("STARTER", str(os.getpid()))
    with RunningProgram(tmp_path, PROGRAM, "--parallelism=2", "--start_method=spawn") as program:
        assert 0 == program.ended(), program.log
        assert ["2 True", "4 True", "the program runs"] == sorted(program.log.splitlines())


def started(directory: pathlib.Path) -> Any:
    """A stream on two such workers."""
    options = PipelineOptions(
        parallelism=2, start_method="spawn", checkpoint_interval=0.1, checkpoint_dir=str(directory / "kept")
    )
    p = beam.Pipeline(options=options)
    numbers = p | beam.io.GenerateSequence(0, 400, 400, 1, partitions=2) | beam.Map(lambda n: {"n": n})
    _ = numbers | beam.io.WriteToSQLite(directory / "out.db", "numbers", columns=["n"], count_column="times")
    return p.run()


def test_such_a_worker_that_is_killed_is_recovered_from(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost, and nothing comes twice."""
    import sqlite3

    result = started(tmp_path)
    wait_until(lambda: result._job.checkpoints_completed, "a checkpoint")
    pid = result._job.context.workers.pids[0]
    os.kill(pid, signal.SIGKILL)
    assert "DONE" == result.wait_until_finish()
    message = f"The pipeline failed, and restarts in 0.1 s: worker 0 (pid {pid}) was killed by SIGKILL (the kernel "
    assert [record for record in caplog.records if record.getMessage().startswith(message)]
    rows = sqlite3.connect(tmp_path / "out.db").execute("SELECT n, times FROM numbers ORDER BY n").fetchall()
    assert [(n, 1) for n in range(400)] == rows


def test_what_cannot_be_pickled_is_refused() -> None:
    """With what can be done about it."""
    lock = threading.Lock()
    with pytest.raises(PenstockError) as error:  # noqa: SIM117
        with beam.Pipeline(options=PipelineOptions(parallelism=2, start_method="spawn")) as p:
            _ = p | beam.Create([1]) | beam.Map(lambda n: lock.locked())
    assert "pickle" in str(error.value)
