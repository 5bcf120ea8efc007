"""What several workers print at the same time."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

with beam.Pipeline(options=PipelineOptions()) as p:
    _ = p | beam.Create(range(5000)) | beam.Reshuffle() | beam.Map(lambda number: print(f"<{number}>"))
"""


@pytest.mark.parametrize("flags", [["--parallelism=2"], ["--streaming", "--parallelism=2", "--workers=2"]])
def test_lines_stay_whole_when_python_does_not_buffer_them(flags: list[str], tmp_path: pathlib.Path) -> None:
    """As in a container; unbuffered, `print` writes a text and the end of its line apart."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", *flags]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=unbuffered, capture_output=True, text=True, check=False)
    assert 0 == ran.returncode, ran.stderr
    assert {f"<{number}>" for number in range(5000)} == set(ran.stdout.splitlines())
