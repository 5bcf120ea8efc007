"""Three ways of shipping penstock to executors, and executors without it or with another version."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from deployments.environments import OTHER_VERSION, Environments
from deployments.programs import run, spark_submit
from support.programs.spark_programs import environment

import penstock

pytestmark = pytest.mark.spark

# A shuffle, with what the executors import.
PROGRAM = """
import sys
import penstock as beam

def imported(n):
    import penstock
    return penstock.__file__, n

with beam.Pipeline(argv=sys.argv[2:]) as p:
    sums = p | beam.Create(range(100)) | beam.Map(imported) | beam.CombinePerKey(sum)
    _ = sums | beam.MapTuple(lambda file, n: f"{n} {file}") | beam.io.WriteToText(sys.argv[1])
"""

# What the executors get, and a part of the path of what they then import.
Way = Callable[[Environments], tuple[dict[str, str], list[str], str]]
WAYS: dict[str, Way] = {
    "an environment that exists": lambda e: ({"PYSPARK_PYTHON": str(e.installed)}, [], str(e.installed.parents[1])),
    "--archives": lambda e: (
        {"PYSPARK_PYTHON": "./environment/bin/python"},
        ["--archives", f"{e.archive}#environment"],
        "/environment/lib/",
    ),
    "--py-files": lambda e: (
        {"PYSPARK_PYTHON": str(e.without_penstock)},
        ["--py-files", str(e.zip)],
        "/penstock.zip/penstock/",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_penstock_is_shipped_to_executors(
    way: str, standalone_cluster: str, environments: Environments, tmp_path: pathlib.Path
) -> None:
    """They import what was shipped, and nothing else."""
    variables, options, where = WAYS[way](environments)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [*spark_submit(standalone_cluster), *options, "program.py", str(tmp_path / "out"), "--runner=spark-batch"]
    run(command, tmp_path, PYSPARK_DRIVER_PYTHON=sys.executable, **variables)
    lines = [line.split(" ", 1) for file in tmp_path.glob("out-*") for line in file.read_text().splitlines()]
    assert sum(range(100)) == sum(int(n) for n, _ in lines)
    assert [] == [file for _, file in lines if where not in file]


WRONG: dict[str, tuple[Callable[[Environments], pathlib.Path], str]] = {
    "without penstock": (lambda e: e.without_penstock, "RunnerError: The executors' Python has no penstock. "),
    "another version": (lambda e: e.other_version, f"RunnerError: penstock {OTHER_VERSION} is on the executor "),
}


@pytest.mark.parametrize("runner", ["spark-batch", "spark-microbatch"])
@pytest.mark.parametrize("case", WRONG)
def test_executors_with_another_environment_are_refused(
    case: str, runner: str, standalone_cluster: str, environments: Environments, tmp_path: pathlib.Path
) -> None:
    """With a sentence that says what to do, and nothing is written."""
    interpreter, told = WRONG[case]
    (tmp_path / "program.py").write_text(PROGRAM)
    flags = [f"--runner={runner}"]
    if runner == "spark-microbatch":
        flags.append(f"--checkpoint_dir={tmp_path / 'kept'}")
    ran = subprocess.run(
        [*spark_submit(standalone_cluster), "program.py", str(tmp_path / "out"), *flags],
        cwd=tmp_path,
        env=environment(PYSPARK_DRIVER_PYTHON=sys.executable, PYSPARK_PYTHON=str(interpreter(environments))),
        stdout=subprocess.PIPE,
        # Versions of spark-submit differ in where they print what the program writes to its stderr.
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert 1 == ran.returncode
    assert told in ran.stdout
    assert "ship it with --py-files or --archives: see docs/deploy/" in ran.stdout
    assert "another version" != case or f"and penstock {penstock.__version__} on the driver" in ran.stdout
    assert [] == list(tmp_path.glob("out-*"))
