"""A program that waits for input while its stream runs in other processes."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

from support.programs.running_program import wait_until

PROGRAM = """
import os, sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def add(number):
    with open("pids", "a") as file:
        file.write(f"{os.getpid()} {sys.stdin.read()!r}\\n")
    return number

flags = ["--parallelism=2", "--workers=2", "--checkpoint_dir=kept", "--checkpoint_interval=0.1", "--worker_timeout=30"]
p = beam.Pipeline(options=PipelineOptions(flags))
_ = p | beam.io.GenerateSequence(0, elements_per_period=100, period=1, partitions=2) | beam.Map(add)
result = p.run()
print("runs", flush=True)
print("read", sys.stdin.read(), flush=True)
result.cancel()
"""


def test_workers_start_and_are_replaced_meanwhile(tmp_path: pathlib.Path) -> None:
    """Python's own module for processes would wait for the end of the input; the workers have an empty one."""
    (tmp_path / "program.py").write_text(PROGRAM)
    pids = tmp_path / "pids"

    def workers() -> set[int]:
        return {int(line.split()[0]) for line in pids.read_text().splitlines()} if pids.exists() else set()

    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            wait_until(lambda: 2 == len(workers()), "both workers work")
            os.kill(min(workers()), signal.SIGKILL)
            wait_until(lambda: 3 <= len(workers()), "another one has replaced it")
            printed, _ = process.communicate("what was typed", timeout=60)
        finally:
            process.kill()
    assert (0, "runs\nread what was typed\n") == (process.returncode, printed)
    assert {"''"} == {line.split()[1] for line in pids.read_text().splitlines()}
