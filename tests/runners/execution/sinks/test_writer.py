"""A sink at work in one worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import penstock as beam
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.sinks.writer import OutputRun
from penstock.sdk import graph
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SinkError, UserCodeError
from penstock.sdk.sink import Sink, SinkContext, SinkWriter
from penstock.transforms.write import Write


class Diary(Sink[Any]):
    """Notes what is asked of it; fails at what it was told to fail at."""

    def __init__(self, fails_at: str = "", error: Exception | None = None) -> None:
        self.notes: list[Any] = []
        self.fails_at = fails_at
        self.error = error or SinkError("the disk is full")

    def note(self, what: str, *details: Any) -> None:
        self.notes.append((what, *details))
        if what == self.fails_at:
            raise self.error

    def prepare(self, context: SinkContext) -> None:
        self.note("prepare", context.transaction)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        self.note("open", context.transaction, context.unit)
        return Page(self)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.note("commit", context.transaction, list(staged))

    def abort(self, context: SinkContext) -> None:
        self.note("abort", context.transaction)


class Page(SinkWriter[Any]):
    def __init__(self, diary: Diary) -> None:
        self.diary = diary
        self.values: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self.diary.note("write", bundle.values)
        self.values += bundle.values

    def stage(self) -> Any:
        self.diary.note("stage")
        return self.values

    def discard(self) -> None:
        self.diary.note("discard")


def run_of(diary: Diary, counts: Counts | None = None, unit: str = "0") -> OutputRun:
    p = beam.Pipeline()
    p | beam.Create([1]) | "Diary" >> Write(diary)
    (transform,) = (t for t in p.graph().transforms if isinstance(t.primitive, graph.ParDo) and t.primitive.sink)
    return OutputRun(transform, "tx", counts or Counts(), unit)


def written_and_staged(run: OutputRun) -> None:
    run.receive(Bundle([1]))
    run.stage()


def test_a_writer_is_opened_by_the_first_bundle_and_staged_in_the_end() -> None:
    """The staged tokens go to the committer.  The writers of a unit are numbered."""
    diary, counts = Diary(), Counts()
    run = run_of(diary, counts, "7-abc")
    run.receive(Bundle([1, 2]))
    run.receive(Bundle([3]))
    run.stage()
    assert [("open", "tx", "7-abc-1"), ("write", [1, 2]), ("write", [3]), ("stage",)] == diary.notes
    assert [[1, 2, 3]] == run.staged
    assert (3, 3) == (counts.of("Diary").read, counts.of("Diary").written)


def test_without_a_bundle_nothing_is_opened() -> None:
    """Nothing is staged or discarded either."""
    diary = Diary()
    run = run_of(diary)
    run.stage()
    run.discard()
    assert ([], []) == (diary.notes, run.staged)


@pytest.mark.parametrize("fails_at", ["write", "stage"])
def test_a_worker_that_failed_discards_what_it_wrote(fails_at: str) -> None:
    """Once, also when what failed was staging."""
    diary = Diary(fails_at)
    run = run_of(diary)
    with pytest.raises(SinkError, match=r"^Diary: the disk is full"):
        written_and_staged(run)
    run.discard()
    run.discard()
    assert [fails_at, "discard"] == [what for what, *_ in diary.notes[-2:]]


def test_behind_the_last_barrier_nothing_is_written() -> None:
    """A watermark may still move there; no transaction has begun that its results could be written in."""
    diary, counts = Diary(), Counts()
    run = run_of(diary, counts)
    written_and_staged(run)
    run.end()
    run.receive(Bundle([2]))
    run.stage()
    assert ["open", "write", "stage"] == [what for what, *_ in diary.notes]
    assert 1 == counts.of("Diary").read


@pytest.mark.parametrize("fails_at", ["open", "write", "stage"])
def test_an_error_names_the_sink(fails_at: str) -> None:
    """A user's own exception stays what it is."""
    run = run_of(Diary(fails_at, ValueError("no such table")))
    with pytest.raises(ValueError, match="no such table") as caught:
        written_and_staged(run)
    error: Any = caught.value
    assert (True, "Diary") == (isinstance(error, UserCodeError), error.transform)
