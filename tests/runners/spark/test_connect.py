"""Batch runs over Spark Connect: what only they do; `RUNNERS=spark-connect` runs the shared tests over it."""

from __future__ import annotations

import gc
import pathlib
import threading
import time
import weakref
from typing import Any

import pytest
from support.programs.running_program import wait_until
from support.runners.running_pages import document, post, printed_page

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.spark import SparkBatchRunner, remote_jobs
from penstock.runners.spark.batch import segment_frames
from penstock.runners.spark.remote import address_of, remote_session
from penstock.sdk.errors import OptionsError, RunnerError, UserCodeError
from penstock.sdk.metrics import Metrics, MetricsFilter
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark

RETRACTING, EARLY = AccumulationMode.RETRACTING, AfterWatermark(early=AfterCount(1))


@pytest.fixture
def remote(connect_session: Any) -> Any:
    """The runner, in a session of the server."""
    return SparkBatchRunner(connect_session)


def counted(word: str) -> tuple[str, int]:
    """A pair, which is counted."""
    Metrics.counter("app", "words").inc()
    return word, 1


def test_a_pipeline_with_shuffles_side_inputs_sinks_and_metrics_runs(remote: Any, tmp_path: pathlib.Path) -> None:
    """Each of them by other means than with RDDs."""
    with beam.Pipeline(remote) as p:
        factor = p | "Factor" >> beam.Create([10])
        words = p | beam.Create(["to be", "or not", "to be"]) | beam.FlatMap(str.split) | "Pair" >> beam.Map(counted)
        sums = words | beam.CombinePerKey(sum)
        times = sums | beam.MapTuple(lambda word, n, f: (word, n * f), beam.pvalue.AsSingleton(factor))
        groups = times | beam.Map(lambda pair: (pair[1], pair[0])) | "Again" >> beam.GroupByKey()
        _ = groups | beam.MapTuple(lambda n, own: f"{n} {sorted(own)}") | beam.io.WriteToText(tmp_path / "out")
        _ = (
            times
            | "Rows" >> beam.Map(lambda pair: {"word": pair[0], "n": pair[1]})
            | beam.io.WriteToSQLite(tmp_path / "out.db", "words", "word", columns=["word", "n"])
        )
    lines = sorted(line for file in tmp_path.glob("out-*") for line in file.read_text().splitlines())
    (counter,) = p.result.metrics().query(MetricsFilter().with_name("words"))["counters"]

    assert ["10 ['not', 'or']", "20 ['be', 'to']"] == lines
    assert 6 == counter.committed


def test_sessions_with_retractions_run(remote: Any) -> None:
    """Triggers and merging windows are those of every runner."""
    with TestPipeline(remote) as p:
        sessions = (
            p
            | beam.Create([("a", 1), ("a", 5), ("b", 3), ("a", 100)])
            | beam.Map(lambda pair: beam.window.TimestampedValue((pair[0], 1), pair[1]))
            | beam.WindowInto(beam.window.Sessions(10), trigger=EARLY, accumulation_mode=RETRACTING)
            | beam.CombinePerKey(sum)
        )
        totals = (
            sessions
            | "Global" >> beam.WindowInto(beam.window.GlobalWindows(), accumulation_mode=RETRACTING)
            | "Total" >> beam.CombinePerKey(sum)
        )
        assert_that(totals, equal_to([("a", 3), ("b", 1)]))


def test_an_error_of_user_code_is_raised_as_on_every_runner(remote: Any, tmp_path: pathlib.Path) -> None:
    """With its transform and element; nothing is published."""

    def parsed(text: str) -> str:
        raise ValueError("not a number: " + text)

    p = beam.Pipeline(remote)
    _ = p | beam.Create(["one"]) | "Parse" >> beam.Map(parsed) | beam.io.WriteToText(tmp_path / "out")
    with pytest.raises(ValueError, match="not a number") as error:
        p.run()
    assert isinstance(error.value, UserCodeError)
    assert ("Parse", "'one'") == (error.value.transform, error.value.element)
    assert [] == list(tmp_path.iterdir())


def test_data_frames_are_read_and_made(remote: Any, connect_session: Any) -> None:
    """In the session of the server."""
    rows = connect_session.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "word string, n bigint")
    with beam.Pipeline(remote) as p:
        sums = p | beam.io.FromSpark(rows) | beam.Map(lambda row: (row.word, row.n)) | beam.CombinePerKey(sum)
        _ = sums | "Out" >> beam.io.ToSpark("word string, total bigint")
    found = p.result.frame("Out/Rows").toArrow().to_pylist()
    assert [{"word": "a", "total": 4}, {"word": "b", "total": 2}] == sorted(found, key=lambda row: row["word"])


@pytest.mark.parametrize("fails", [False, True])
def test_rows_are_released_with_the_last_dataframe_of_them(
    remote: Any, connect_session: Any, fails: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is told once no DataFrame of them is left, and its cache of plans hasn't kept them."""
    from pyspark.sql.connect.dataframe import DataFrame

    found: list[tuple[Any, str]] = []
    checkpoint = DataFrame.localCheckpoint

    def noted(frame: Any, *arguments: Any, **options: Any) -> Any:
        made = checkpoint(frame, *arguments, **options)
        found.append((weakref.ref(made._plan), connect_session.conf.get("spark.connect.session.planCache.enabled")))
        return made

    monkeypatch.setattr(DataFrame, "localCheckpoint", noted)
    p = beam.Pipeline(remote)
    numbers = p | beam.Create(range(10)) | beam.Map(lambda n: (n % 2, n))
    written = numbers | "Out" >> beam.io.ToSpark("k bigint, n bigint")
    groups = numbers | beam.GroupByKey()
    _ = groups | beam.Map(lambda pair: 1 // pair[0] if fails else 0) | beam.io.WriteToText(tmp_path / "out")
    if fails:
        with pytest.raises(ZeroDivisionError):
            p.run()
    else:
        p.run()
        assert 10 == written.dataframe().count()
    ((rows, caches_plans),) = found
    assert fails or rows() is not None
    del p, numbers, written, groups, _
    gc.collect()
    assert (None, "false") == (rows(), caches_plans)
    assert "true" == connect_session.conf.get("spark.connect.session.planCache.enabled")


def test_a_large_side_input_is_refused_with_a_way_out(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have to be sent with each function."""
    monkeypatch.setattr(segment_frames, "MOST_SIDE_INPUT_BYTES", 1000)
    p = beam.Pipeline(remote)
    large = p | "Large" >> beam.Create(["x" * 2000])
    _ = p | beam.Create([1]) | "Use" >> beam.Map(lambda n, side: n, beam.pvalue.AsSingleton(large))
    with pytest.raises(RunnerError) as error:
        p.run()
    assert "Use: its side inputs have " in str(error.value)
    assert "join by CoGroupByKey instead" in str(error.value)


def test_a_segment_that_is_read_twice_runs_once(remote: Any, tmp_path: pathlib.Path) -> None:
    """Its DataFrame is kept between the two."""

    def noted(n: int) -> tuple[int, int]:
        with open(tmp_path / "calls", "a") as calls:
            calls.write(f"{n}\n")
        return n % 2, n

    with beam.Pipeline(remote) as p:
        pairs = p | beam.Create(range(10)) | beam.Map(noted)
        _ = pairs | "Sum" >> beam.CombinePerKey(sum) | "Sums" >> beam.Map(str) | beam.io.WriteToText(tmp_path / "sums")
        _ = pairs | "Pairs" >> beam.Map(str) | "Out" >> beam.io.WriteToText(tmp_path / "pairs")
    assert sorted(range(10)) == sorted(map(int, (tmp_path / "calls").read_text().split()))


def started(p: beam.Pipeline) -> tuple[threading.Thread, list[BaseException]]:
    """The thread of a run, and the error that it will have ended with."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            p.run()
        except BaseException as error:
            errors.append(error)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    return running, errors


def test_a_run_has_a_page_that_cancels_it(
    remote: Any, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It counts what the stages have reported whose results the client has read; nothing is published."""

    def endless(n: int, own: int) -> str:
        time.sleep(600)
        return str(n + own)

    p = beam.Pipeline(remote, options=PipelineOptions(ui_port=0))
    total = p | "Numbers" >> beam.Create(range(10)) | "Same" >> beam.Map(lambda n: n) | beam.CombineGlobally(sum)
    texts = p | beam.Create([1]) | "Endless" >> beam.Map(endless, beam.pvalue.AsSingleton(total))
    _ = texts | beam.io.WriteToText(tmp_path / "out")
    running, errors = started(p)
    page = printed_page(capfd)
    wait_until(lambda: 10 in document(page, "status").get("read", {}).values(), "the count of a step")
    assert "time passes once, at the end" in document(page, "panes")["why"]
    assert ["cancel"] == document(page, "run")["requests"]
    assert 200 == post(page, "/api/requests/cancel").status
    running.join(120)

    assert not running.is_alive()
    assert [RunnerError] == [type(error) for error in errors]
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("refuses", [False, True], ids=["", "with dynamic allocation"])
def test_a_run_that_is_interrupted_ends_when_its_tasks_have_ended(
    refuses: bool,
    remote: Any,
    connect_session: Any,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No task stages output after the run has removed what was staged; where Spark can't tell, it waits and says so."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.dataframe import DataFrame

    mapped = DataFrame.mapInArrow

    def refusing(self: Any, *arguments: Any, barrier: bool = False, **others: Any) -> Any:
        if barrier:
            raise PySparkException("Barrier execution mode does not support dynamic resource allocation for now.\nat")
        return mapped(self, *arguments, barrier=barrier, **others)

    if refuses:
        monkeypatch.setattr(DataFrame, "mapInArrow", refusing)
        monkeypatch.setattr(remote_jobs, "STOPPING_SECONDS", 6.0)
    beats = tmp_path / "beats"
    beats.mkdir()

    def beating(n: int) -> str:
        while True:
            (beats / str(n)).write_text(str(time.monotonic()))
            time.sleep(0.01)

    p = beam.Pipeline(remote)
    _ = p | beam.Create([0, 1]) | beam.Map(beating) | beam.io.WriteToText(tmp_path / "out")
    running, errors = started(p)
    wait_until(lambda: any(beats.iterdir()), "a task")
    connect_session.interruptAll()
    running.join(120)
    last = [file.read_text() for file in sorted(beats.iterdir())]
    time.sleep(1)

    assert [RunnerError] == [type(error) for error in errors]
    assert last == [file.read_text() for file in sorted(beats.iterdir())]
    assert refuses == ("waiting 6 s for them (Barrier execution mode does not support" in caplog.text)
    assert ["beats"] == [file.name for file in tmp_path.iterdir()]


def test_a_program_names_the_server_by_a_flag(spark_connect: str) -> None:
    """A session of its own, which ends with the run."""
    with beam.Pipeline(options=PipelineOptions(["--runner=spark", f"--spark_remote={spark_connect}"])) as p:
        _ = p | beam.Create([1, 2]) | beam.Map(lambda n: (n, n)) | beam.GroupByKey()
    assert "DONE" == p.result.state


def test_the_active_session_is_used_unless_this_process_has_a_driver(
    connect_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook's, without an option; also where the package is `pyspark-client`, which has no SparkContext."""
    import pyspark
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    assert (connect_session, False) == remote_session(PipelineOptions([]), None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert None is remote_session(PipelineOptions([]), None)
    monkeypatch.delattr(pyspark, "SparkContext")
    assert (connect_session, False) == remote_session(PipelineOptions([]), None)


def test_a_server_that_does_not_answer_is_an_error_with_its_address() -> None:
    """Before anything runs."""
    pytest.importorskip("grpc")
    p = beam.Pipeline(options=PipelineOptions(["--runner=spark-batch", "--spark_remote=sc://127.0.0.1:1"]))
    _ = p | beam.Create([1])
    with pytest.raises(RunnerError, match=r"Spark Connect did not answer at sc://127\.0\.0\.1:1: "):
        p.run()


# --- Refused when the pipeline is built


WRONG = {
    "no URL": (["--spark_remote=host:1"], "expected the URL of a server, sc://host:port, got 'host:1'"),
    "two masters": (["--spark_remote=sc://host", "--spark_master=local[2]"], "leave one of them out"),
}


@pytest.mark.parametrize("case", WRONG)
def test_contradicting_options_are_refused(case: str) -> None:
    """With what to do."""
    flags, told = WRONG[case]
    with pytest.raises(OptionsError) as error:
        address_of(PipelineOptions(flags), {})
    assert told in str(error.value)


def test_the_variable_of_pyspark_is_heeded_unless_a_master_is_given() -> None:
    """As PySpark's own programs do."""
    environ = {"SPARK_REMOTE": "sc://there"}
    assert "sc://there" == address_of(PipelineOptions([]), environ)
    assert None is address_of(PipelineOptions(["--spark_master=local[2]"]), environ)
