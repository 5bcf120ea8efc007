"""A run that fails leaves nothing behind; and sources and sinks of the user's own fail it too."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.pipelines.checks import check
from support.runners.local_variants import IN_SIMULATION

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import UserCodeError
from penstock.sdk.sink import Sink, SinkContext, SinkWriter
from penstock.sdk.sources.bounded import BoundedSource


def failure(pipeline: Any) -> Any:
    """Return the error of running the pipeline."""
    with pytest.raises(Exception) as error:
        pipeline.run()
    return error.value


def files_in(directory: pathlib.Path) -> list[str]:
    """Every file below, however it is hidden."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


# --- Files


def fail_late(n: int) -> str:
    if n == 999:
        raise ValueError("late")
    return str(n)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_outputs_of_a_failed_run_are_absent(pipeline: Any, tmp_path: pathlib.Path, shuffled: bool) -> None:
    """Also what was written before it failed, and whatever was staged for it."""
    numbers = pipeline | beam.Create(range(1000))
    if shuffled:
        numbers = numbers | beam.Reshuffle()
    _ = numbers | beam.Map(fail_late) | beam.io.WriteToText(str(tmp_path / "out"))
    assert isinstance(failure(pipeline), ValueError)
    assert [] == files_in(tmp_path)


def test_of_two_sinks_neither_has_anything_if_one_fails(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """Though the other would have succeeded: before it, beside it, or after a shuffle."""
    numbers = pipeline | beam.Create(range(1000))
    _ = numbers | "fine" >> beam.Map(str) | "good" >> beam.io.WriteToText(str(tmp_path / "good"))
    totals = numbers | beam.CombineGlobally(sum) | "total" >> beam.Map(str)
    _ = totals | "after" >> beam.io.WriteToText(str(tmp_path / "after"))
    _ = numbers | "fail" >> beam.Map(fail_late) | "bad" >> beam.io.WriteToText(str(tmp_path / "bad"))
    assert isinstance(failure(pipeline), ValueError)
    assert [] == files_in(tmp_path)


def test_what_was_there_before_a_failed_run_stays(pipeline: Any, make_pipeline: Any, tmp_path: pathlib.Path) -> None:
    """The output of an earlier run of the same pipeline."""
    with pipeline as p:
        _ = p | beam.Create(["before"]) | beam.io.WriteToText(str(tmp_path / "out"), num_shards=1)
    before = files_in(tmp_path)
    second = make_pipeline()
    _ = second | beam.Create([999]) | beam.Map(fail_late) | beam.io.WriteToText(str(tmp_path / "out"), num_shards=1)
    assert isinstance(failure(second), ValueError)
    assert before == files_in(tmp_path)
    assert "before\n" == (tmp_path / before[0]).read_text()


def test_a_failing_assertion_keeps_outputs_away_as_well(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """It fails the run like any other function."""
    numbers = pipeline | beam.Create([1])
    check([2], numbers)
    _ = numbers | beam.io.WriteToText(str(tmp_path / "out"))
    assert isinstance(failure(pipeline), AssertionError)
    assert [] == files_in(tmp_path)


# --- Sources of the user's own


class FailingSource(BoundedSource[int]):
    def __init__(self, method: str) -> None:
        self.method = method

    def reach(self, method: str) -> None:
        if method == self.method:
            raise LookupError(f"in {method}")

    def estimate_size(self) -> int | None:
        return None

    def split(self, desired_splits: int) -> Sequence[Any]:
        self.reach("split")
        return [0]

    def read(self, split: Any) -> Iterator[int]:
        self.reach("read")
        return self._numbers()

    def _numbers(self) -> Iterator[int]:
        yield 1
        self.reach("next")
        yield 2


class EagerSource(FailingSource):
    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        self.reach("read_bundles")
        return iter([Bundle([1])])


@pytest.mark.parametrize("method", ["split", "read", "next"])
def test_a_failing_source_fails_the_run(pipeline: Any, tmp_path: pathlib.Path, method: str) -> None:
    """While it is split, when it is opened, and in the middle."""
    _ = pipeline | "my source" >> beam.io.Read(FailingSource(method)) | beam.io.WriteToText(str(tmp_path / "out"))
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    assert ("my source", []) == (error.transform, files_in(tmp_path))
    assert str(error).startswith(f"LookupError: in {method} [while running 'my source' at {__file__}:")


def test_a_source_that_fails_before_its_first_bundle_fails_the_run(pipeline: Any) -> None:
    """Where read_bundles is no generator."""
    _ = pipeline | "my source" >> beam.io.Read(EagerSource("read_bundles"))
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    assert "my source" == error.transform


def test_a_source_of_the_users_own_is_read(pipeline: Any) -> None:
    """If it doesn't fail."""
    with pipeline as p:
        check([1, 2], p | "rows" >> beam.io.Read(FailingSource("never")))
        check([1], p | "bundles" >> beam.io.Read(EagerSource("never")))


# --- Sinks of the user's own


class LoggingSink(Sink[Any]):
    """Keeps a file for every call, and fails in one of them."""

    def __init__(self, directory: pathlib.Path, fails_in: str = "") -> None:
        self.directory = directory
        self.fails_in = fails_in

    def reach(self, method: str) -> None:
        (self.directory / method).touch()
        if method == self.fails_in:
            raise LookupError(f"in {method}")

    def prepare(self, context: SinkContext) -> None:
        self.reach("prepare")

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        self.reach("open_writer")
        return LoggingWriter(self)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.reach("commit")
        (self.directory / "published").write_text(repr(sorted(value for values in staged for value in values)))

    def abort(self, context: SinkContext) -> None:
        self.reach("abort")

    def close(self) -> None:
        assert (self.directory / "published").exists()
        self.reach("close")


class LoggingWriter(SinkWriter[Any]):
    def __init__(self, sink: LoggingSink) -> None:
        self.sink = sink
        self.values: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self.sink.reach("write")
        self.values.extend(bundle.values)

    def stage(self) -> list[Any]:
        self.sink.reach("stage")
        return self.values

    def discard(self) -> None:
        self.sink.reach("discard")


def test_a_sink_is_prepared_written_staged_committed_and_closed(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """And not aborted."""
    with pipeline as p:
        _ = p | beam.Create([3, 1, 2]) | beam.io.Write(LoggingSink(tmp_path))
    assert ["close", "commit", "open_writer", "prepare", "published", "stage", "write"] == files_in(tmp_path)
    assert "[1, 2, 3]" == (tmp_path / "published").read_text()


def test_a_sink_that_cannot_be_closed_is_named(
    pipeline: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run has succeeded: its output is committed."""
    with pipeline as p:
        _ = p | beam.Create([3, 1, 2]) | "my sink" >> beam.io.Write(LoggingSink(tmp_path, fails_in="close"))
    assert "[1, 2, 3]" == (tmp_path / "published").read_text()
    assert "my sink: the sink can't be closed: LookupError: in close" in caplog.text


@pytest.mark.parametrize("method", ["prepare", "open_writer", "write", "stage", "commit"])
def test_a_failing_sink_fails_the_run(pipeline: Any, runner_name: str, tmp_path: pathlib.Path, method: str) -> None:
    """Wherever it fails; and another sink publishes nothing.

    What is in a checkpoint when a commit fails stays staged, for the next start to commit.
    """
    (tmp_path / "mine").mkdir()
    numbers = pipeline | beam.Create([1, 2, 3])
    _ = numbers | "my sink" >> beam.io.Write(LoggingSink(tmp_path / "mine", fails_in=method))
    _ = numbers | "other" >> beam.io.WriteToText(str(tmp_path / "out"))
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    stays = runner_name in ("local-job", "local-4", *IN_SIMULATION) and method == "commit"
    before = "checkpoint 1 is complete, and can't be published: " if stays else ""
    text = str(error)[str(error).index(before) :] if stays else str(error)
    assert text.startswith(f"{before}LookupError: in {method} [while running 'my sink' at {__file__}:")
    assert not {"published", "close"} & set(files_in(tmp_path / "mine"))
    left = [path for path in files_in(tmp_path) if not path.startswith("mine")]
    if stays:
        assert left
        assert all(path.startswith(".") for path in left)
    else:
        assert [] == left


def test_a_failed_run_aborts_every_sink(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """A failure of the abort doesn't hide the cause."""
    numbers = pipeline | beam.Create([999])
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        _ = numbers | name >> beam.io.Write(LoggingSink(tmp_path / name, fails_in="abort"))
    _ = numbers | beam.Map(fail_late)
    assert isinstance(failure(pipeline), ValueError)
    for name in ("first", "second"):
        assert "abort" in files_in(tmp_path / name)
        assert "published" not in files_in(tmp_path / name)


def test_a_pipeline_without_results_publishes_an_empty_file(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """A reader of the output can tell it from a run that has failed."""
    with pipeline as p:
        _ = p | beam.Create([1]) | beam.Filter(lambda n: n > 1) | beam.io.WriteToText(str(tmp_path / "out"))

    assert {"out-00000-of-00001": ""} == {path.name: path.read_text() for path in tmp_path.iterdir()}
