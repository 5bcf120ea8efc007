"""Sinks of users with writers, as Beam defines them."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import penstock as beam
from penstock.beam.io.sink import Sink, Writer
from penstock.sdk.errors import UnsupportedError
from penstock.testing import TestPipeline, TestStream
from penstock.testing.util import assert_that, equal_to, is_empty


class Files(Sink):
    """A file for each writer, renamed when the write is finalized."""

    def __init__(self, directory: pathlib.Path, shards: int = 0, skip_if_empty: bool = False) -> None:
        self.directory = directory
        self.num_shards = shards
        self.skip_if_empty = skip_if_empty

    def initialize_write(self) -> str:
        (self.directory / "temp").mkdir()
        return str(self.directory / "temp")

    def open_writer(self, init_result: str, uid: str) -> Writer:
        return FileWriter(pathlib.Path(init_result, uid))

    def pre_finalize(self, init_result: str, writer_results: Any) -> int:
        return len(writer_results)

    def finalize_write(self, init_result: str, writer_results: Any, pre_finalize_result: int) -> Any:
        for i, path in enumerate(sorted(writer_results, key=lambda path: pathlib.Path(path).read_text())):
            final = self.directory / f"{i}-of-{pre_finalize_result}"
            pathlib.Path(path).rename(final)
            yield final.name


class FileWriter(Writer):
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.written: list[str] = []

    def write(self, value: str) -> None:
        self.written.append(value)

    def close(self) -> str:
        self.path.write_text("".join(sorted(self.written)))
        return str(self.path)


def contents(directory: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


@pytest.mark.parametrize("used", [False, True])
def test_the_results_of_writers_are_finalized(tmp_path: pathlib.Path, used: bool) -> None:
    """At the end of the run; or before transforms get what `finalize_write` returns."""
    with TestPipeline() as p:
        written = p | beam.Create(list("abc")) | beam.io.Write(Files(tmp_path))
        if used:
            assert_that(written, equal_to(["0-of-1"]))
    assert {"0-of-1": "abc"} == contents(tmp_path)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize(("skip", "expected"), [(False, ["0-of-2", "1-of-2"]), (True, [])])
def test_writers_of_an_empty_input(tmp_path: pathlib.Path, skip: bool, expected: list[str], used: bool) -> None:
    """As many as there are shards, or none."""
    with TestPipeline() as p:
        written = p | beam.Create([]) | beam.io.Write(Files(tmp_path, 2, skip))
        if used:
            assert_that(written, equal_to(expected) if expected else is_empty())
    assert dict.fromkeys(expected, "") == contents(tmp_path)


def test_shards_have_a_writer_each(tmp_path: pathlib.Path) -> None:
    with TestPipeline() as p:
        _ = p | beam.Create(list("abcd")) | beam.io.Write(Files(tmp_path, 2))
    assert ["0-of-2", "1-of-2"] == sorted(contents(tmp_path))
    assert "abcd" == "".join(sorted("".join(contents(tmp_path).values())))


def test_a_failed_run_finalizes_nothing(tmp_path: pathlib.Path) -> None:
    """The commit of all sinks is one step."""
    p = TestPipeline()
    letters = p | beam.Create(list("abc"))
    _ = letters | beam.io.Write(Files(tmp_path))
    _ = letters | beam.Map(lambda letter: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        p.run()
    assert {} == contents(tmp_path)


def test_an_unbounded_input_is_refused(tmp_path: pathlib.Path) -> None:
    p = TestPipeline()
    with pytest.raises(UnsupportedError, match="a Sink with writers takes a bounded input"):
        _ = p | TestStream() | beam.io.Write(Files(tmp_path))


def test_a_transform_stands_for_a_sink(tmp_path: pathlib.Path) -> None:
    with TestPipeline() as p:
        written = p | beam.Create(["a"]) | beam.io.Write(beam.io.WriteToText(str(tmp_path / "out")))
        assert_that(written, equal_to([str(tmp_path / "out-00000-of-00001")]))
