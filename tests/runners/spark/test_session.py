"""The SparkSession that a pipeline runs in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.runners.spark.session import find_session
from penstock.sdk.errors import MissingExtraError, OptionsError, RunnerError
from penstock.sdk.options import PipelineOptions


def find(*flags: str, given: Any = None) -> Any:
    return find_session(PipelineOptions(list(flags)), given)


def test_an_existing_session_is_used(spark: Any) -> None:
    """The run doesn't stop it."""
    assert (spark, False) == find()


def test_a_session_is_used_from_another_thread(spark: Any) -> None:
    """In a thread without an active session."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(find()))
    thread.start()
    thread.join()
    ((session, is_ours),) = found
    assert (spark.sparkContext, False) == (session.sparkContext, is_ours)


def test_the_given_session_is_used(spark: Any) -> None:
    """The given session precedes the active one."""
    given = spark.newSession()
    assert given is find(given=given)[0]


def test_flags_that_agree_with_the_session_are_accepted(spark: Any) -> None:
    """Its master, and settings of its own."""
    flags = ["--spark_master=local[2]", "--spark_conf=spark.ui.enabled=false"]
    assert (spark, False) == find(*flags)


def test_another_master_is_an_error(spark: Any) -> None:
    """A process has one context."""
    message = (
        "--spark_master=local[7]: this process already has a Spark session with the master local[2]. "
        "Omit the option, or stop that session first"
    )
    with pytest.raises(OptionsError) as caught:
        find("--spark_master=local[7]")
    assert message == str(caught.value)


@pytest.mark.parametrize(
    ("setting", "current"),
    [
        ("spark.executor.memory=3g", "with no such setting"),
        ("spark.sql.shuffle.partitions=77", "with spark.sql.shuffle.partitions=4"),
    ],
)
def test_another_setting_is_an_error(spark: Any, setting: str, current: str) -> None:
    """The setting would have no effect."""
    with pytest.raises(OptionsError) as caught:
        find(f"--spark_conf={setting}")
    message = f"this process already has a Spark session {current}. Set it where that session is created"
    assert f"--spark_conf {setting}: {message}" == str(caught.value)


def test_a_pipeline_leaves_the_session_running(spark: Any) -> None:
    """The session existed before."""
    with beam.Pipeline(runner="spark-batch") as p:
        p | beam.Create([1])
    assert 3 == spark.sparkContext.parallelize([1, 2]).sum()


def test_a_session_of_spark_connect_is_refused() -> None:
    """It lacks RDDs."""

    class Connected:
        @property
        def sparkContext(self) -> Any:
            raise RuntimeError("not supported over Spark Connect")

    with pytest.raises(RunnerError, match="one of Spark Connect"):
        find(given=Connected())


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, not the module."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'penstock\[spark\]'"):
        find()


STARTED = """
import json, os, sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
import penstock as beam

flags = ["--runner=spark-batch", "--spark_master=local[2]", "--spark_app_name=mine"]
flags += ["--spark_conf", "spark.example=a=b", "--spark_conf", "spark.ui.showConsoleProgress=true"]
seen = {}

class Interpreter(beam.DoFn):
    def process(self, element):
        return [sys.executable]

getOrCreate = SparkSession.Builder.getOrCreate
def spied(builder):
    session = getOrCreate(builder)
    seen.update(session.sparkContext.getConf().getAll())
    return session
SparkSession.Builder.getOrCreate = spied

try:
    with beam.Pipeline(argv=flags) as p:
        p | beam.Create([0]) | beam.Map(lambda x: 1 / x)
except ZeroDivisionError:
    seen["stopped after failure"] = SparkContext._active_spark_context is None

with beam.Pipeline(argv=flags) as p:
    p | beam.Create([1]) | beam.ParDo(Interpreter()) | beam.io.WriteToText(sys.argv[1])
seen["stopped"] = SparkContext._active_spark_context is None

try:
    with beam.Pipeline(argv=["--runner=spark-batch", "--spark_master=nonsense"]) as p:
        p | beam.Create([0])
except beam.sdk.errors.RunnerError as error:
    seen["error"] = str(error)

with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
"""


@pytest.mark.spark
def test_a_session_is_started_by_the_flags_and_stopped_again(tmp_path: Path) -> None:
    """On the loopback interface, with this interpreter in workers; each pipeline, also a failed one, has its own."""
    pytest.importorskip("pyspark")
    environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    ran = subprocess.run(
        [sys.executable, "-c", STARTED, tmp_path / "seen"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert 0 == ran.returncode, ran.stderr
    seen = json.loads((tmp_path / "seen").read_text())
    expected = {
        "spark.master": "local[2]",
        "spark.app.name": "mine",
        "spark.example": "a=b",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true",
        "stopped": True,
        "stopped after failure": True,
    }
    assert expected == {name: seen.get(name) for name in expected}
    assert seen["error"].startswith("Spark did not start with master nonsense: ")
    assert [f"{sys.executable}\n"] == [file.read_text() for file in tmp_path.glob("seen-*")]
