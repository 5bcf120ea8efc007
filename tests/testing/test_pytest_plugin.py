"""The pytest plugin of penstock, in a separate run of pytest."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

FAILING = """
import penstock as beam
from penstock.testing import TestPipeline, assert_that, equal_to


def parsed(text):
    return int(text)


def test_a_function_fails():
    with TestPipeline({options}) as p:
        p | beam.Create(["1", "one"]) | beam.Map(parsed)


def test_a_matcher_fails():
    with TestPipeline({options}) as p:
        assert_that(p | beam.Create([1]), equal_to([2]))


def test_building_fails():
    with TestPipeline({options}) as p:
        p | "same" >> beam.Create([1])
        p | "same" >> beam.Create([2])
"""


def run(directory: pathlib.Path, *flags: str, options: str = "") -> str:
    (directory / "test_pipeline.py").write_text(FAILING.replace("{options}", options))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir=.", "--tb=short", *flags]
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert "3 failed" in ran.stdout, ran.stdout
    return ran.stdout


@pytest.mark.parametrize("options", ["", 'argv=["--parallelism=2"]'])
def test_a_test_that_fails_shows_none_of_penstocks_frames(tmp_path: pathlib.Path, options: str) -> None:
    """But those of the test, and of the function that raised."""
    shown = run(tmp_path, options=options)

    assert "test_pipeline.py:7" in shown
    assert "invalid literal for int() with base 10: 'one'" in shown
    assert "expected [2], got [1]: unexpected elements [1], missing elements [2]" in shown
    assert 'A transform with label "same" already exists in the pipeline' in shown
    frames = [line for line in shown.splitlines() if ": in " in line]
    assert [] == [line for line in frames if not line.startswith("test_pipeline.py:")]


def test_all_frames_are_shown_where_they_are_asked_for(tmp_path: pathlib.Path) -> None:
    """As those of pytest itself."""
    shown = run(tmp_path, "--full-trace")

    assert "def run_pipeline(" in shown
