"""SourceSuite: the conformance suite of sources, as tests of pytest.

A subclass says how numbers are added to a new place and how a pipeline reads it, and inherits the tests:

    class TestReadings(SourceSuite):
        @pytest.fixture(autouse=True)
        def directory(self, tmp_path):
            self.path = tmp_path

        def place(self):
            ...

        def add(self, place, numbers):
            ...

        def read(self, place):
            return Readings(place, EventTimes(idle_after=0.1))

        @staticmethod
        def number(element):
            return element["n"]

`read` is of the input as a stream, `read_whole` of what it has when the run begins.  A subclass defines one of them, or
both.  Tests of what a source doesn't have, by the attributes and the methods of its class, aren't collected.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ..sdk.errors import PenstockError
from ..sdk.options import PipelineOptions
from ..sdk.pipeline import Pipeline
from ..sdk.ptransform import PTransform
from ..sdk.runner import PipelineResult
from ..sdk.sources.bounded import BoundedSource
from ..sdk.sources.unbounded import UnboundedSource
from ..transforms import CombineGlobally, Flatten, Map, Read, WindowInto
from ..transforms.write import Write
from ..triggers import AccumulationMode, AfterWatermark
from ..windowing import FixedWindows
from .collecting_sink import CollectingSink, collected
from .killed_process import KilledProcess, until

# The numbers of the parts of an input.
_FEW, _MORE = 20, 50

# The seconds of a window.
_WINDOW = 0.05


class SourceSuite:
    """Base class of the tests of a source, which pytest collects from subclasses whose names begin with `Test`.

    Attributes:
      accepts_two: whether two transforms of a pipeline may read one place.  Otherwise the second one must be refused by
        an error that names both.
      is_idle_soon: whether `read` gives a source that is idle after a second or less without elements.
      many: the number of elements of an input that has many.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> class TestLines(SourceSuite):
    ...     def place(self):
    ...         return tempfile.mkdtemp()
    ...     def add(self, place, numbers):
    ...         _ = pathlib.Path(place, "lines").write_text(chr(10).join(map(str, numbers)))
    ...     def read_whole(self, place):
    ...         return beam.io.ReadFromText(f"{place}/*")
    >>> TestLines().test_one_element_is_read(pathlib.Path(tempfile.mkdtemp()))
    """

    accepts_two: bool = True
    is_idle_soon: bool = True
    many: int = 2_000

    # --- What a subclass defines

    def place(self) -> Any:
        """Return a new, empty place to read from, which no other test has, such as the name of a topic."""
        raise NotImplementedError(f"{type(self).__name__}.place")

    def add(self, place: Any, numbers: Sequence[int]) -> None:
        """Add numbers to a place, as another program does."""
        raise NotImplementedError(f"{type(self).__name__}.add")

    def read(self, place: Any) -> PTransform | UnboundedSource[Any]:
        """Return a transform or a source that reads a place as a stream, from its beginning."""
        raise NotImplementedError(f"{type(self).__name__}.read")

    def read_whole(self, place: Any) -> PTransform | BoundedSource[Any]:
        """Return a transform or a source that reads what a place has when the run begins."""
        raise NotImplementedError(f"{type(self).__name__}.read_whole")

    @staticmethod
    def number(element: Any) -> int:
        """Return the number of an element."""
        return int(element)

    def sever(self) -> None:
        """Let the server that `read` connects to lose its connections, and accept none."""
        raise NotImplementedError(f"{type(self).__name__}.sever")

    def restore(self) -> None:
        """Let the server accept connections again."""
        raise NotImplementedError(f"{type(self).__name__}.restore")

    def __init_subclass__(cls) -> None:
        def defines(name: str) -> bool:
            return getattr(cls, name) is not getattr(SourceSuite, name)

        is_stream, is_whole = defines("read"), defines("read_whole")
        applies = {
            "test_an_empty_input_has_no_elements": is_whole,
            "test_one_element_is_read": is_whole,
            "test_many_elements_are_read_once_each": is_whole,
            "test_workers_share_the_input": is_whole,
            "test_two_transforms_read_the_whole_input": is_whole and cls.accepts_two,
            "test_elements_are_read_as_they_are_added": is_stream,
            "test_many_elements_of_a_stream_are_read_once_each": is_stream,
            "test_two_transforms_read_the_stream": is_stream and cls.accepts_two,
            "test_two_transforms_of_one_place_are_refused_by_their_labels": is_stream and not cls.accepts_two,
            "test_windows_close_though_another_input_is_quiet": is_stream and cls.is_idle_soon,
            "test_a_run_that_is_killed_is_continued": is_stream,
            "test_one_of_two_workers_is_killed": is_stream,
            "test_a_lost_server_is_waited_for": is_stream and defines("sever"),
        }
        for name, does in applies.items():
            if name not in cls.__dict__:
                setattr(cls, name, getattr(SourceSuite, name) if does else None)

    # --- The whole input

    def test_an_empty_input_has_no_elements(self, tmp_path: pathlib.Path) -> None:
        place = self.place()
        assert self._whole([place], tmp_path) == []

    def test_one_element_is_read(self, tmp_path: pathlib.Path) -> None:
        place = self.place()
        self.add(place, [7])
        assert self._whole([place], tmp_path) == [7]

    def test_many_elements_are_read_once_each(self, tmp_path: pathlib.Path) -> None:
        place = self.place()
        self.add(place, range(self.many))
        assert list(range(self.many)) == self._whole([place], tmp_path)

    def test_workers_share_the_input(self, tmp_path: pathlib.Path) -> None:
        """Each element is read by one of them."""
        place = self.place()
        self.add(place, range(_MORE))
        assert list(range(_MORE)) == self._whole([place], tmp_path, parallelism=2)

    def test_two_transforms_read_the_whole_input(self, tmp_path: pathlib.Path) -> None:
        """Each reads all of it, also if they are one object; and one that reads another place has its elements."""
        place, other = self.place(), self.place()
        self.add(place, range(_FEW))
        self.add(other, range(_FEW, _MORE))
        read = _transform(self.read_whole(place))
        expected = sorted([*range(_FEW), *range(_FEW), *range(_MORE)])
        reads = [read, read, *(_transform(self.read_whole(each)) for each in (place, other))]
        assert expected == self._whole_of(reads, tmp_path)

    # --- A stream

    def test_elements_are_read_as_they_are_added(self, tmp_path: pathlib.Path) -> None:
        """To a place that is empty at first."""
        place, stream = self.place(), self._stream(tmp_path)
        result = stream.run([_transform(self.read(place))])
        for numbers in (range(1), range(1, _FEW), range(_FEW, _MORE)):
            self.add(place, numbers)
            stream.until_it_has(range(numbers.stop))
        stream.end(result)
        assert list(range(_MORE)) == stream.numbers()

    def test_many_elements_of_a_stream_are_read_once_each(self, tmp_path: pathlib.Path) -> None:
        place, stream = self.place(), self._stream(tmp_path)
        self.add(place, range(self.many))
        result = stream.run([_transform(self.read(place))])
        stream.until_it_has(range(self.many))
        stream.end(result)
        assert list(range(self.many)) == stream.numbers()

    def test_two_transforms_read_the_stream(self, tmp_path: pathlib.Path) -> None:
        """Each reads all of it, also if they are one object; and one that reads another place has its elements."""
        place, other, stream = self.place(), self.place(), self._stream(tmp_path)
        self.add(place, range(_FEW))
        self.add(other, range(_FEW, _MORE))
        read = _transform(self.read(place))
        expected = sorted([*range(_FEW), *range(_FEW), *range(_MORE)])
        result = stream.run([read, read, *(_transform(self.read(each)) for each in (place, other))])
        stream.until_it_has(expected)
        stream.end(result)
        assert expected == stream.numbers()

    def test_two_transforms_of_one_place_are_refused_by_their_labels(self, tmp_path: pathlib.Path) -> None:
        """Also if one object is applied twice."""
        place = self.place()
        one = _transform(self.read(place))
        for other in (one, _transform(self.read(place))):
            with pytest.raises(PenstockError, match="(?s)Read 2.*Read 1"):
                self._stream(tmp_path).run([one, other])

    def test_windows_close_though_another_input_is_quiet(self, tmp_path: pathlib.Path) -> None:
        """The watermark follows the elements, or the clock; an idle input doesn't hold it back."""
        place, quiet, stream = self.place(), self.place(), self._stream(tmp_path, counts=True)
        self.add(place, range(_FEW))
        result = stream.run([_transform(self.read(each)) for each in (place, quiet)])
        added = itertools.count(_FEW)

        def has_closed() -> bool:
            number = next(added)
            self.add(place, range(number, number + 1))
            time.sleep(_WINDOW)
            return sum(stream.numbers()) >= _FEW

        until(has_closed, "the windows of the first elements are closed")
        stream.end(result)
        # The last elements were perhaps not read yet when the stream was ended.
        assert _FEW <= sum(stream.numbers()) <= next(added)

    # --- Failures

    def test_a_run_that_is_killed_is_continued(self, tmp_path: pathlib.Path) -> None:
        """Each element is read once, also those that are added meanwhile."""
        place, stream = self.place(), self._stream(tmp_path)
        reads = [_transform(self.read(place))]
        self.add(place, range(_FEW))
        process = KilledProcess(tmp_path / "log", _run_to_the_end, *stream.settings(reads))
        try:
            until(lambda: stream.numbers() or not process.is_alive, "a checkpoint is published")
            assert process.is_alive, process.log
        finally:
            process.kill()
        self.add(place, range(_FEW, _MORE))
        result = stream.run(reads)
        stream.until_it_has(range(_MORE))
        stream.end(result)
        assert list(range(_MORE)) == stream.numbers()

    def test_one_of_two_workers_is_killed(self, tmp_path: pathlib.Path) -> None:
        """Each element is published once."""
        place = self.place()
        killed = tmp_path / "killed"
        stream = self._stream(tmp_path, killed, parallelism=2, max_restarts=3, restart_delay=0.01)
        self.add(place, range(_FEW))
        result = stream.run([_transform(self.read(place))])
        stream.until_it_has(range(_FEW))
        killed.with_suffix(".next").touch()
        self.add(place, range(_FEW, _MORE))
        stream.until_it_has(range(_MORE))
        assert killed.exists()
        stream.end(result)
        assert list(range(_MORE)) == stream.numbers()

    def test_a_lost_server_is_waited_for(self, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
        """Without a restart.  A warning, which begins with the label of the transform, says what is waited for."""
        place, stream = self.place(), self._stream(tmp_path, max_restarts=0)
        self.add(place, range(_FEW))
        result = stream.run([_transform(self.read(place))])
        stream.until_it_has(range(_FEW))
        caplog.clear()
        self.sever()
        try:
            self.add(place, range(_FEW, _MORE))
            until(lambda: any(text.startswith("Read 1") for text in caplog.messages), "a warning names the transform")
        finally:
            self.restore()
        stream.until_it_has(range(_MORE))
        stream.end(result)
        assert list(range(_MORE)) == stream.numbers()

    # --- What the tests share

    def _whole(self, places: Sequence[Any], directory: pathlib.Path, **flags: Any) -> list[int]:
        return self._whole_of([_transform(self.read_whole(place)) for place in places], directory, **flags)

    def _whole_of(self, reads: Sequence[PTransform], directory: pathlib.Path, **flags: Any) -> list[int]:
        stream = _Stream(directory, self.number, {}, None, False)
        _run(reads, self.number, stream.collected, flags, None, False).wait_until_finish()
        return stream.numbers()

    def _stream(
        self, directory: pathlib.Path, killed: pathlib.Path | None = None, counts: bool = False, **flags: Any
    ) -> _Stream:
        kept = {"checkpoint_dir": str(directory / "kept"), "checkpoint_interval": 0.05, "max_restarts": 0}
        return _Stream(directory, self.number, kept | flags, killed, counts)


class _Stream:
    """A stream whose numbers are collected exactly once."""

    def __init__(
        self,
        directory: pathlib.Path,
        number: Callable[[Any], int],
        flags: Mapping[str, Any],
        killed: pathlib.Path | None,
        counts: bool,
    ) -> None:
        self.collected = str(directory / "collected")
        self._others = (number, self.collected, flags, None if killed is None else str(killed), counts)

    def settings(self, reads: Sequence[PTransform]) -> tuple[Any, ...]:
        """Return the arguments of a run."""
        return (reads, *self._others)

    def run(self, reads: Sequence[PTransform]) -> PipelineResult:
        """Start the stream in this process."""
        return _run(*self.settings(reads))

    def numbers(self) -> list[int]:
        """Return what was collected."""
        return collected(self.collected)

    def until_it_has(self, numbers: Sequence[int]) -> None:
        """Wait until these numbers were collected, or more of them."""
        until(lambda: len(self.numbers()) >= len(numbers), f"the {len(numbers)} numbers were read")
        assert list(numbers) == self.numbers()

    def end(self, result: PipelineResult) -> None:
        """End the stream, when what it has read is published."""
        assert result.drain() == "DRAINED"  # type: ignore[attr-defined]


def _transform(read: Any) -> PTransform:
    return read if isinstance(read, PTransform) else Read(read)


def _run_to_the_end(*arguments: Any) -> None:
    _run(*arguments).wait_until_finish()


def _run(
    reads: Sequence[PTransform],
    number: Callable[[Any], int],
    directory: str,
    flags: Mapping[str, Any],
    killed: str | None,
    counts: bool,
) -> PipelineResult:
    def numbered(element: Any) -> int:
        if killed is not None and os.path.exists(f"{killed}.next"):
            _kill_once(killed)
        return number(element)

    p = Pipeline("local", options=PipelineOptions([], **flags))
    parts = tuple(p | f"Read {n}" >> read | f"Number {n}" >> Map(numbered) for n, read in enumerate(reads, 1))
    numbers = parts | Flatten()
    if counts:
        mode = AccumulationMode.RETRACTING
        windows = WindowInto(FixedWindows(_WINDOW), trigger=AfterWatermark(), accumulation_mode=mode)
        numbers = numbers | Map(lambda _: 1) | windows | CombineGlobally(sum).without_defaults()
    _ = numbers | "Collect" >> Write(CollectingSink(directory))
    return p.run()


def _kill_once(note: str) -> None:
    try:
        os.close(os.open(note, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), 9)
