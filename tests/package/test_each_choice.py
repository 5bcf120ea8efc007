"""On Spark and on variants of the local runner, tests have each value of each parameter (see `each_choice`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from support.suite.each_choice import each_choice

import pytest


@pytest.fixture(params=["local", "local-2", "spark-batch"])
def runner_name(request):
    return request.param


def pytest_configure(config):
    config.addinivalue_line("markers", "spark: ...")


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in item.name:
            item.add_marker("spark")
    items[:] = each_choice(items)
"""

SUITE = """
import pytest


@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("kind", ["a", "b"])
def test_combined(runner_name, kind, n):
    pass


@pytest.mark.spark
@pytest.mark.parametrize("n", range(3))
@pytest.mark.parametrize("kind", ["a", "b"])
def test_of_spark_alone(kind, n):
    pass


@pytest.mark.parametrize(("n", "expected"), [(0, True), (1, True), (1, False)])
def test_cases(runner_name, n, expected):
    pass
"""


def test_each_value_of_each_parameter_is_tried_on_spark_and_on_variants(tmp_path: Path) -> None:
    """All combinations are tried on the local runner, and all cases of one `parametrize` on each."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[1]}\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:hypothesispytest"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, set[str]] = {}
    for line in ran.stdout.splitlines():
        if match := re.fullmatch(r"test_suite.py::(\w+)\[(local-2|local|spark-batch)-(.*)\]", line):
            test, runner, values = match.groups()
            found.setdefault(f"{test} {runner}", set()).add(values)

    assert {
        "test_combined local": {"a-0", "a-1", "a-2", "b-0", "b-1", "b-2"},
        "test_combined local-2": {"a-0", "b-1", "a-2"},
        "test_combined spark-batch": {"a-0", "b-1", "a-2"},
        "test_cases local": {"0-True", "1-True", "1-False"},
        "test_cases local-2": {"0-True", "1-True", "1-False"},
        "test_cases spark-batch": {"0-True", "1-True", "1-False"},
    } == found
    assert 6 == ran.stdout.count("test_of_spark_alone")
