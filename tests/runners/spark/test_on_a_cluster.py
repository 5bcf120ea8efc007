"""Pipelines on a real standalone cluster whose executors have 1 GB, and by spark-submit."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

HELPER = """
def label(number):
    return "even" if number % 2 == 0 else "odd"
"""

# A shuffle, a side input, a file sink, and a module beside the script that executors can't import.
PROGRAM = """
import sys

import helper

import penstock as beam

with beam.Pipeline(argv=sys.argv[2:]) as p:
    factor = p | "factor" >> beam.Create([10])
    (
        p
        | beam.Create(range(1000))
        | beam.Map(lambda n, f: (helper.label(n), n * f), beam.pvalue.AsSingleton(factor))
        | beam.CombinePerKey(sum)
        | beam.MapTuple(lambda key, total: f"{key} {total}")
        | beam.io.WriteToText(sys.argv[1])
    )
"""

LARGE_GROUP = """
import resource
import sys

import penstock as beam


def measured(key, values):
    first, again = sum(values), sum(1 for _ in values)
    return key, first, again, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


with beam.Pipeline(argv=sys.argv[2:]) as p:
    (
        p
        | beam.Create(range(50))
        | beam.FlatMap(lambda part: (("one key", part * 100_000 + n) for n in range(100_000)))
        | beam.GroupByKey()
        | beam.MapTuple(measured)
        | beam.Map(lambda found: " ".join(map(str, found)))
        | beam.io.WriteToText(sys.argv[1])
    )
"""

MANY_KEYS = """
import resource
import sys

import penstock as beam


class Measured(beam.DoFn):
    def process(self, pair):
        key, values = pair
        yield len(list(values)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


with beam.Pipeline(argv=sys.argv[2:]) as p:
    (
        p
        | beam.Create(range(50))
        | beam.FlatMap(lambda part: ((part * 100_000 + n, 1) for n in range(100_000)))
        | beam.GroupByKey()
        | beam.ParDo(Measured())
        | beam.CombineGlobally(beam.combiners.TupleCombineFn(sum, max))
        | beam.MapTuple(lambda groups, memory: f"{groups} {memory}")
        | beam.io.WriteToText(sys.argv[1])
    )
"""


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    (tmp_path / "helper.py").write_text(HELPER)
    # Don't use the bytecode of another test's helper.
    return os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def written(
    command: list[str], program: str, flags: list[str], directory: pathlib.Path, environment: dict[str, str]
) -> list[str]:
    """Return the lines that a program has written in a process of its own."""
    script = directory / "program.py"
    script.write_text(program)
    output = directory / "output"
    ran = subprocess.run(
        [*command, str(script), str(output), "--runner=spark-batch", *flags],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return sorted(line for file in directory.glob("output-*") for line in file.read_text().splitlines())


def test_a_pipeline_runs_on_a_standalone_cluster(
    standalone_cluster: str, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    """With a shuffle, a side input, a file sink, and a module that exists beside the script only."""
    flags = [f"--spark_master={standalone_cluster}", "--spark_conf", "spark.executor.memory=512m"]

    lines = written([sys.executable], PROGRAM, flags, tmp_path, environment)

    assert lines == ["even 2495000", "odd 2500000"]


def test_a_pipeline_runs_by_spark_submit(
    standalone_cluster: str, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    """It uses the session that spark-submit has configured."""
    import pyspark

    submit = pathlib.Path(pyspark.__file__).parent / "bin" / "spark-submit"
    conf = ["--master", standalone_cluster, "--executor-memory", "512m", "--conf", "spark.ui.enabled=false"]
    loopback = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]

    lines = written([str(submit), *conf, *loopback], PROGRAM, [], tmp_path, environment)

    assert lines == ["even 2495000", "odd 2500000"]


def test_a_group_of_five_million_values_fits_executors_of_a_gigabyte(
    standalone_cluster: str, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    """Its values are iterated twice and never in memory together: five million of them would take 200 MB."""
    flags = [f"--spark_master={standalone_cluster}", "--spark_conf", "spark.executor.memory=1g"]

    (line,) = written([sys.executable], LARGE_GROUP, flags, tmp_path, environment)
    *found, memory = line.rsplit(" ", 3)

    assert found == ["one key", str(sum(range(5_000_000))), "5000000"]
    assert int(memory) < 220_000


def test_five_million_keys_fit_executors_of_a_gigabyte(
    standalone_cluster: str, tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    """A task works on one key group at a time, of which there are 128."""
    flags = [f"--spark_master={standalone_cluster}", "--spark_conf", "spark.executor.memory=1g"]

    (line,) = written([sys.executable], MANY_KEYS, flags, tmp_path, environment)
    groups, memory = line.split()

    assert groups == "5000000"
    assert int(memory) < 400_000
