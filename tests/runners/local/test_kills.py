"""Processes that are killed while a pipeline runs: its results are those of a run without (see `kills`).

`make kills` does it a hundred and twenty times.
"""

from __future__ import annotations

import pathlib
import re
import secrets
import signal

import pytest
from kills.killing import killed_often, killed_once
from kills.orphans import wait_for_orphans
from support.programs.running_program import RunningProgram


@pytest.fixture
def seed() -> str:
    """Another one each time; a failed test prints it."""
    seed = secrets.token_hex(4)
    print(f"seed {seed}")
    return seed


@pytest.mark.parametrize("run", range(2))
def test_workers_are_killed_again_and_again(tmp_path: pathlib.Path, seed: str, run: int) -> None:
    """At random moments; nothing is lost, nothing comes twice, and nothing that was staged is left."""
    assert killed_often(tmp_path, "worker", seed, 5) >= 4


def test_the_coordinator_is_killed_again_and_again(tmp_path: pathlib.Path, seed: str) -> None:
    """And started again with the same checkpoints; its workers don't outlive it."""
    assert killed_often(tmp_path, "coordinator", seed, 3) >= 2


@pytest.mark.parametrize("whom", ["worker", "coordinator"])
def test_a_process_is_killed_at_a_random_point(tmp_path: pathlib.Path, seed: str, whom: str) -> None:
    """Such as before or after a manifest, within a part, or between the commits of two sinks."""
    killed_once(tmp_path, whom, seed)


STUCK = """
import os, time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def stay(n):
    print("stuck", os.getpid(), flush=True)
    time.sleep(1000)

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions()) as p:
        _ = p | beam.io.GenerateSequence(0, None, 100, 1, partitions=2) | beam.Map(stay)
"""


STUCK_WORKER = r"(?m)^stuck (\d+)$"


@pytest.mark.parametrize("begin", ["forkserver", "spawn"])
def test_a_busy_worker_does_not_outlive_its_coordinator(tmp_path: pathlib.Path, begin: str) -> None:
    """In a function of the user's, it used to go on until that returned: forked, or an interpreter of its own."""
    with RunningProgram(tmp_path, STUCK, "--parallelism=2", f"--start_method={begin}") as program:
        program.wait_until(lambda: len(re.findall(STUCK_WORKER, program.log)) == 2, "two workers")
        workers = list(map(int, re.findall(STUCK_WORKER, program.log)))
        program.signal(signal.SIGKILL)
        program.ended()
        wait_for_orphans(workers)
