"""Pipelines on a real standalone cluster whose executors have 1 GB."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# A module beside the script, which executors can't import.
HELPER = """
import resource


def measured(key, values):
    first, again = sum(values), sum(1 for _ in values)
    return key, first, again, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""

# The memory of a worker is the most that it had: the keys, which may have more, come last.
PROGRAM = """
import resource
import sys

import helper

import penstock as beam


class Measured(beam.DoFn):
    def process(self, pair):
        key, values = pair
        yield len(list(values)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


with beam.Pipeline(argv=sys.argv[2:]) as p:
    (
        p
        | beam.Create(range(50))
        | beam.FlatMap(lambda part: (("one key", part * 40_000 + n) for n in range(40_000)))
        | beam.GroupByKey()
        | beam.MapTuple(helper.measured)
        | beam.Map(lambda found: " ".join(map(str, found)))
        | beam.io.WriteToText(sys.argv[1] + "/group")
    )

with beam.Pipeline(argv=sys.argv[2:]) as p:
    (
        p
        | beam.Create(range(50))
        | beam.FlatMap(lambda part: ((part * 40_000 + n, 1) for n in range(40_000)))
        | beam.GroupByKey()
        | beam.ParDo(Measured())
        | beam.CombineGlobally(beam.combiners.TupleCombineFn(sum, max))
        | beam.MapTuple(lambda groups, memory: f"{groups} {memory}")
        | beam.io.WriteToText(sys.argv[1] + "/keys")
    )
"""


@pytest.fixture(scope="module")
def written(standalone_cluster: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The line that each pipeline of the program has written, in a process of its own."""
    directory = tmp_path_factory.mktemp("program")
    (directory / "helper.py").write_text(HELPER)
    (directory / "program.py").write_text(PROGRAM)
    flags = ["--runner=spark-batch", f"--spark_master={standalone_cluster}", "--spark_conf", "spark.executor.memory=1g"]
    ran = subprocess.run(
        [sys.executable, "program.py", str(directory), *flags],
        cwd=directory,
        env=os.environ
        # Don't use the bytecode of another test's helper.
        | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    lines = {}
    for name in ("group", "keys"):
        (lines[name],) = [line for file in directory.glob(f"{name}-*") for line in file.read_text().splitlines()]
    return lines


def test_a_group_of_two_million_values_fits_executors_of_a_gigabyte(written: dict[str, str]) -> None:
    """Its values are iterated twice and never in memory together: two million of them would take 80 MB.

    The function is in a module beside the script.
    """
    *found, memory = written["group"].rsplit(" ", 3)

    assert found == ["one key", str(sum(range(2_000_000))), "2000000"]
    assert int(memory) < 180_000


def test_two_million_keys_fit_executors_of_a_gigabyte(written: dict[str, str]) -> None:
    """A task works on one key group at a time, of which there are 128."""
    groups, memory = written["keys"].split()

    assert groups == "2000000"
    assert int(memory) < 120_000
