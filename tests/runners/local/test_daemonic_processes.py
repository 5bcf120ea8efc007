"""A run in a daemonic process, such as a worker of a pool: a task of a queue, or a request of a web server."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing, sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

def summed(flags):
    with beam.Pipeline(options=PipelineOptions(flags)) as p:
        pairs = p | beam.Create(range(100)) | beam.Map(lambda n: (n % 2, n))
        _ = pairs | beam.CombinePerKey(sum) | beam.Map(str) | beam.io.WriteToText("out", num_shards=1)
    return multiprocessing.current_process().daemon

if __name__ == "__main__":
    with multiprocessing.Pool(1) as pool:
        print(pool.apply(summed, [sys.argv[1:]]))
"""


@pytest.mark.parametrize("flags", [["--parallelism=2"], ["--streaming", "--parallelism=2", "--workers=2"]])
def test_it_has_workers_of_its_own(flags: list[str], tmp_path: pathlib.Path) -> None:
    """Which Python forbids, since they might outlive it; workers of a run don't.  It is as daemonic after it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", *flags]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (0, "True\n") == (ran.returncode, ran.stdout), ran.stderr
    (file,) = tmp_path.glob("out*")
    assert ["(0, 2450)", "(1, 2500)"] == sorted(file.read_text().splitlines())
