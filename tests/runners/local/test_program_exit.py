"""A program that exits while its job runs."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

p = beam.Pipeline(options=PipelineOptions(sys.argv[2:]))
_ = p | beam.io.GenerateSequence(0, elements_per_period=10, period=1) | beam.Map(lambda n: n)
result = p.run()
if sys.argv[1] == "cancels":
    result.cancel()
print("exits")
"""


@pytest.mark.parametrize("flags", [[], ["--parallelism=2", "--workers=2"]])
@pytest.mark.parametrize("cancels", [False, True])
def test_it_says_that_the_job_ends_with_it(cancels: bool, flags: list[str], tmp_path: pathlib.Path) -> None:
    """Unless it has cancelled the job."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", "cancels" if cancels else "forgets", *flags]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (0, "exits\n") == (ran.returncode, ran.stdout), ran.stderr
    said = "The program exits while its pipeline runs, which ends with it; call wait_until_finish() on the result"
    assert (not cancels) == (said in ran.stderr), ran.stderr
