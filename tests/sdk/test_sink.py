"""Sinks are told who writes and for which transaction; and sinks of an earlier version are refused by name."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import attrs
import pytest

import penstock as beam
from penstock.io import Sink, SinkContext, SinkSpec, SinkWriter
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import UnsupportedError
from penstock.sdk.options import PipelineOptions


class Diary(Sink[Any]):
    """Notes the context of each call in a directory."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory

    def note(self, what: str, context: SinkContext) -> None:
        number = len(list(self.directory.iterdir()))
        (self.directory / f"{number:03}-{uuid4().hex}").write_text(json.dumps([what, attrs.asdict(context)]))

    def notes(self) -> list[tuple[str, dict[str, Any]]]:
        return [tuple(json.loads(path.read_text())) for path in sorted(self.directory.iterdir())]

    def prepare(self, context: SinkContext) -> None:
        self.note("prepare", context)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        self.note("open_writer", context)
        return Page()

    def precommit(self, staged: Any) -> None:
        for context in staged:
            self.note("precommit", context)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.note("commit", context)

    def abort(self, context: SinkContext) -> None:
        self.note("abort", context)


class Page(SinkWriter[Any]):
    def write(self, bundle: Bundle) -> None:
        pass

    def stage(self) -> Any:
        return "staged"

    def discard(self) -> None:
        pass


class WriteDiary(beam.PTransform[Any, Any]):
    def __init__(self, diary: Diary) -> None:
        super().__init__()
        self.diary = diary

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Inner" >> beam.io.Write(self.diary)


@pytest.mark.parametrize("runner_name", ["direct", "local", "spark-batch"])
def test_each_call_has_the_label_and_the_transaction(runner_name: str, tmp_path: pathlib.Path) -> None:
    """Only the writer has a unit; what a transform isn't told it can't get wrong."""
    diary = Diary(tmp_path)
    with beam.Pipeline(runner_name) as p:
        _ = p | beam.Create([1, 2]) | "Outer" >> WriteDiary(diary)

    notes = diary.notes()
    assert ["prepare", "open_writer", "precommit", "commit"] == list(dict.fromkeys(what for what, _ in notes))
    assert {("Outer/Inner", False, False)} == {
        (context["label"], context["many_transactions"], context["dead_letters"]) for _, context in notes
    }
    assert 1 == len({context["transaction"] for _, context in notes})
    assert all((what == "open_writer") == bool(context["unit"]) for what, context in notes)


@pytest.mark.parametrize("has_dead_letters", [False, True])
def test_dead_letters_are_asked_for_if_the_sink_has_some(
    has_dead_letters: bool, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the sink that has none."""
    diary = Diary(tmp_path)
    diary.spec = SinkSpec(has_dead_letters=has_dead_letters)
    options = PipelineOptions(["--on_commit_error=dead_letter"])
    with beam.Pipeline("direct", options=options) as p:
        _ = p | beam.Create([1]) | "Save" >> beam.io.Write(diary)

    assert {has_dead_letters} == {context["dead_letters"] for _, context in diary.notes()}
    assert has_dead_letters == ("Save: --on_commit_error=dead_letter: its sink has no place" not in caplog.text)


def test_the_transactions_of_a_stream_are_of_one_series_and_many(tmp_path: pathlib.Path) -> None:
    """A sink may keep the last one only."""
    diary = Diary(tmp_path / "notes")
    diary.directory.mkdir()
    options = PipelineOptions([f"--checkpoint_dir={tmp_path / 'kept'}", "--checkpoint_interval=0.05"])
    with beam.Pipeline("local", options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, stop=30, elements_per_period=1, period=0.01)
        _ = numbers | "Save" >> beam.io.Write(diary)

    contexts = [SinkContext(**context) for _, context in diary.notes()]
    assert {True} == {context.many_transactions for context in contexts}
    assert len({context.transaction for context in contexts}) > 1
    (series,) = {context.series for context in contexts}
    assert series is not None


class Former(Diary):
    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:  # type: ignore[override]
        return Page()


class Flagged(Diary):
    accepts_retractions = True


class Moving(Diary):
    def with_dead_letters(self) -> Any:
        return self


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Former, r"Save: Former\.open_writer must take a SinkContext; .* context\.transaction and context\.unit"),
        (
            Flagged,
            r"Save: Flagged has accepts_retractions, .*; use spec = SinkSpec\(accepts_retractions=True\) instead",
        ),
        (Moving, r"Save: Moving has with_dead_letters, .*; use spec = SinkSpec\(has_dead_letters=True\) and "),
    ],
)
def test_a_sink_of_an_earlier_version_is_refused_with_what_to_change(
    kind: type[Diary], expected: str, tmp_path: pathlib.Path
) -> None:
    """While the pipeline is built; it would fail in a worker otherwise, or append what it is to retract."""
    p = beam.Pipeline()
    numbers = p | beam.Create([1])
    with pytest.raises(UnsupportedError, match=expected):
        numbers | "Save" >> beam.io.Write(kind(tmp_path))


def test_a_sink_may_be_given_to_several_transforms(tmp_path: pathlib.Path) -> None:
    """Each call says which of them writes."""
    diary = Diary(tmp_path)
    with beam.Pipeline("direct") as p:
        numbers = p | beam.Create([1])
        _ = numbers | "One" >> beam.io.Write(diary)
        _ = numbers | "Two" >> beam.io.Write(diary)

    assert ["One", "Two"] == [context["label"] for what, context in diary.notes() if what == "commit"]
