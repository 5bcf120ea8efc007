"""A source's partitions, offsets and watermarks in one subtask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.execution.subtasks import ByHand, graph_of
from support.pipelines.recording import Recording

import penstock as beam
from penstock.io.files.growing_text import GrowingTextSource
from penstock.runners.local.subtask.sources import SourceReader, number_of
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import UserCodeError
from penstock.sdk.sources.event_time_reader import EventTimes
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.windowing import GLOBAL_WINDOW, FixedWindows, Timestamp
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS


class Scripted(UnboundedSource[Any]):
    """Partitions that are as a test has set them: their values, watermark, and whether they are idle or over."""

    def __init__(self, **partitions: dict[str, Any]) -> None:
        self.state = partitions

    def __copy__(self) -> Scripted:
        return self

    def __deepcopy__(self, memo: Any) -> Scripted:
        return self

    def partitions(self) -> Sequence[str]:
        return list(self.state)

    def open(self, partition: str, offset: int | None) -> UnboundedReader[Any]:
        return ScriptedReader(self.state[partition], offset or 0)


class ScriptedReader(UnboundedReader[Any]):
    def __init__(self, state: dict[str, Any], offset: int) -> None:
        self.state = state
        self.at = offset

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        values = self.state.get("values", [])[self.at : self.at + max_elements]
        self.at += len(values)
        return Bundle(list(values), [0] * len(values), (GLOBAL_WINDOW,)) if values else None

    def offset(self) -> int:
        return self.at

    def watermark(self, now: Timestamp) -> int:
        return int(self.state.get("watermark", MIN_MICROS))

    def is_idle(self, now: Timestamp) -> bool:
        return bool(self.state.get("idle"))

    def is_finished(self) -> bool:
        return bool(self.state.get("over")) and self.at == len(self.state.get("values", []))


def reader_of(source: Scripted, index: int = 0, parallelism: int = 1, positions: Any = None) -> SourceReader:
    graph = graph_of(lambda p: p | beam.io.Read(source))
    (step,) = graph.tasks[0].sources
    reader = SourceReader(step, index, parallelism)
    reader._source = source
    reader.start(0, positions)
    return reader


def drained(reader: SourceReader) -> list[Any]:
    values: list[Any] = []
    while bundle := reader.poll(2, 0):
        values += bundle.values
    return values


def test_partitions_are_read_in_turn() -> None:
    """None waits for another's end."""
    reader = reader_of(Scripted(a={"values": [1, 2, 3, 4]}, b={"values": [10, 20, 30]}))
    assert [1, 2, 10, 20, 3, 4, 30] == drained(reader)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_each_partition_is_one_subtasks(parallelism: int) -> None:
    """Also after a restore, whatever the number was before."""
    source = Scripted(**{name: {"values": [name] * 4} for name in "abcdefg"})
    first = [reader_of(source, index, 2) for index in range(2)]
    for reader in first:
        reader.poll(3, 0)
    read = sum(p.offset or 0 for reader in first for p in reader.positions())
    positions = [position for reader in first for position in reader.positions()]
    again = [reader_of(source, index, parallelism, positions) for index in range(parallelism)]
    rest = [value for reader in again for value in drained(reader)]
    assert 7 * 4 - read == len(rest)
    assert 6 == read


def test_the_watermark_is_the_least_of_those_that_are_neither_idle_nor_over() -> None:
    """And never goes back."""
    source = Scripted(a={"watermark": 5}, b={"watermark": 3}, c={"watermark": 1, "idle": True})
    reader = reader_of(source)
    assert 3 == reader.watermark(0)
    source.state["b"]["idle"] = True
    assert 5 == reader.watermark(0)
    source.state["b"]["idle"] = False
    assert 5 == reader.watermark(0)


def test_where_all_are_idle_there_is_none_and_where_all_are_over_it_is_the_end_of_time() -> None:
    """An idle source doesn't hold the watermark."""
    source = Scripted(a={"idle": True, "over": True})
    reader = reader_of(source)
    assert None is reader.watermark(0)
    reader.poll(1, 0)
    assert (True, MAX_MICROS) == (reader.is_finished, reader.watermark(0))


def test_a_partition_has_one_number_in_every_process() -> None:
    """Not its hash."""
    assert [3, 3991240644 >> 20] == [number_of(3), number_of("a")]


def test_numbered_files_are_read_by_all_subtasks() -> None:
    """Also where the names differ in one digit only."""
    assert {0, 1, 2, 3} == {number_of(f"/data/part-{n}.csv") % 4 for n in range(20)}


def test_a_partition_that_cannot_be_a_key_has_a_number_too() -> None:
    assert {0, 1} == {number_of([n]) % 2 for n in range(10)}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_an_idle_source_doesnt_hold_what_it_is_flattened_with(parallelism: int) -> None:
    """An idle input doesn't hold the watermark downstream."""
    busy, idle = Scripted(a={"watermark": 7}), Scripted(b={"idle": True})

    def build(p: Any) -> None:
        both = (p | "busy" >> beam.io.Read(busy), p | "idle" >> beam.io.Read(idle)) | beam.Flatten()
        both | beam.WindowInto(FixedWindows(10)) | beam.WithKeys("k") | beam.GroupByKey() | beam.io.Write(Recording())

    found = ByHand(graph_of(build, parallelism))
    found.run()
    (edge,) = found.graph.tasks[1].inputs
    assert {7} == {found[1, i].execution._edge_watermarks[edge.id] for i in range(parallelism)}


def test_what_comes_of_an_idle_source_alone_is_idle_and_is_not_when_that_goes_on() -> None:
    """Its own watermark counts again then."""
    source = Scripted(b={"idle": True})
    found = ByHand(graph_of(lambda p: p | beam.io.Read(source) | beam.Map(str) | beam.Reshuffle(), 1))
    found.run()
    (edge,) = found.graph.tasks[1].inputs
    assert found[0, 0].execution.is_idle(edge.pcollection)
    source.state["b"].update(idle=False, watermark=9)
    found.run()
    assert not found[0, 0].execution.is_idle(edge.pcollection)
    assert 9 == found[1, 0].execution._edge_watermarks[edge.id]


def following(pattern: Any) -> SourceReader:
    """A reader of the lines of files, which looks for them each second."""
    return reader_of(GrowingTextSource(str(pattern), 1.0, EventTimes()))  # type: ignore[arg-type]


def lines_of(reader: SourceReader, now: int) -> list[Any]:
    """Return the lines of one second; then ask for the watermark, and once more for elements."""
    values: list[Any] = []
    while bundle := reader.poll(10, now * 1_000_000):
        values += bundle.values
    reader.watermark(now * 1_000_000)
    assert reader.poll(10, now * 1_000_000) is None
    return values


def test_a_file_that_gets_the_name_of_a_removed_one_is_read(tmp_path: Path) -> None:
    """As where logs are rotated; it was taken for the one that had been read, and nothing of it came."""
    path = tmp_path / "a.log"
    path.write_text("old\n")
    reader = following(tmp_path / "*.log")

    assert ["old"] == lines_of(reader, 0)
    path.rename(tmp_path / "a.log.1")
    assert [] == lines_of(reader, 2)
    path.write_text("new\n")
    assert ["new"] == lines_of(reader, 4)
    restored = reader_of(reader._source, positions=reader.positions())  # type: ignore[arg-type]
    path.write_text("new\nand more\n")
    assert ["and more"] == lines_of(restored, 6)
    reader.close()
    restored.close()


def test_a_partition_that_is_over_and_given_again_is_no_news() -> None:
    """Unless its source says that it is another of that name."""
    source = Scripted(a={"values": [1], "over": True}, b={})
    source.discovery_interval = 1.0
    reader = reader_of(source)

    assert [1] == lines_of(reader, 0)
    assert [] == lines_of(reader, 2)
    source.reopens = True
    assert [1] == lines_of(reader, 4)


def test_what_is_over_is_closed_when_a_checkpoint_knows_of_it(tmp_path: Path) -> None:
    """A removed file occupies disk space as long as a process has it open."""
    path = tmp_path / "a.log"
    path.write_text("one\n")
    reader = following(path)
    lines_of(reader, 0)
    file = reader._partitions[str(path)].reader._file  # type: ignore[union-attr]
    before = reader.positions()
    path.unlink()
    lines_of(reader, 2)

    reader.acknowledge(before)
    assert not file.closed
    reader.acknowledge(reader.positions())
    assert file.closed
    assert [] == lines_of(reader, 4)
    assert [(str(path), None, MAX_MICROS, True)] == reader.positions()


def test_what_is_over_says_its_last_watermark_first() -> None:
    """Busy sources aren't asked for a watermark after each element, so the last one could get lost."""
    source = Scripted(a={"values": [1], "watermark": 7, "over": True})
    source.discovery_interval = 1.0
    reader = reader_of(source)

    assert [[1], None] == [reader.poll(1, 0).values, reader.poll(1, 0)]  # type: ignore[union-attr]
    assert 7 == reader.watermark(0)
    assert (None, None) == (reader.poll(1, 0), reader.watermark(0))


def test_a_partition_at_the_end_of_time_doesnt_say_it_of_those_that_are_yet_to_be_found() -> None:
    """A reader says so of itself in the moment in which its end hasn't been noticed yet."""
    source = Scripted(a={"watermark": MAX_MICROS})
    source.discovery_interval = 1.0
    reader = reader_of(source)
    assert reader.watermark(0) is None
    source.state["b"] = {"watermark": 5}
    reader.poll(1, 1_000_000)
    assert 5 == reader.watermark(1_000_000)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_partitions_that_are_over_dont_say_after_a_restore_that_all_is(parallelism: int) -> None:
    """Of a source that finds others later; all that those had was taken for late, and dropped."""
    source = Scripted(a={"values": [1], "watermark": 7, "over": True}, b={"values": [1], "watermark": 9, "over": True})
    source.discovery_interval = 1.0
    reader = reader_of(source)
    lines_of(reader, 0)
    positions = reader.positions()
    source.state["c"] = {"values": [2], "watermark": 8}

    again = [reader_of(source, index, parallelism, positions) for index in range(parallelism)]

    assert [2] == [value for reader in again for value in drained(reader)]
    assert {8} == {watermark for reader in again if (watermark := reader.watermark(0)) is not None}


class Unwell(Scripted):
    """Its readers fail in one method."""

    def __init__(self, fails: str) -> None:
        super().__init__(all={})
        self.fails = fails

    def open(self, partition: str, offset: int | None) -> UnboundedReader[Any]:
        reader = super().open(partition, offset)

        def fail(*_: Any) -> None:
            raise ConnectionError("gone")

        setattr(reader, self.fails, fail)
        return reader


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("poll", lambda reader: reader.poll(1, 0)),
        ("watermark", lambda reader: reader.watermark(0)),
        ("is_idle", lambda reader: reader.percentiles(0)),
        ("watermarks", lambda reader: reader.percentiles(0)),
        ("backlog", lambda reader: reader.backlog()),
        ("offset", lambda reader: reader.positions()),
        ("close", lambda reader: reader.close()),
    ],
)
def test_a_source_that_fails_is_named_with_the_users_line(method: str, ask: Any) -> None:
    """In each method; errors in percentiles, backlogs and closing used to lack the name."""
    reader = reader_of(Unwell(method))
    with pytest.raises(UserCodeError, match=r"^ConnectionError: gone \[while running '.*Read.*' at .*test_source"):
        ask(reader)
