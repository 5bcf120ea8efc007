"""Sources that are read by ranges: their splits, and sources made of others.  On the runners: tests/model."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.io.concat_source import ConcatSource
from penstock.io.filebasedsource import FileBasedSource
from penstock.io.iobase import BoundedSource, SourceBundle
from penstock.io.range_trackers import OffsetRangeTracker


class Numbers(BoundedSource):  # type: ignore[misc]
    def __init__(self, start: int, stop: int) -> None:
        self.start = start
        self.stop = stop

    def estimate_size(self) -> int:
        return self.stop - self.start

    def get_range_tracker(self, start_position: Any, stop_position: Any) -> Any:
        start = self.start if start_position is None else start_position
        return OffsetRangeTracker(start, self.stop if stop_position is None else stop_position)

    def split(self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None) -> Iterator[Any]:
        for start in range(self.start, self.stop, desired_bundle_size):
            stop = min(start + desired_bundle_size, self.stop)
            yield SourceBundle(stop - start, self, start, stop)

    def read(self, range_tracker: Any) -> Iterator[int]:
        n = range_tracker.start_position()
        while range_tracker.try_claim(n):
            yield n
            n += 1


class Lines(FileBasedSource):  # type: ignore[misc]
    def read_records(self, file_name: str, offset_range_tracker: Any) -> Iterator[bytes]:
        with self.open_file(file_name) as file:
            start = offset_range_tracker.start_position()
            if start:
                # The line that has started before is of the range before.
                file.seek(start - 1)
                start += len(file.readline()) - 1
            while (line := file.readline()) and offset_range_tracker.try_claim(start):
                start += len(line)
                yield line.rstrip()


def read(source: Any, start: Any = None, stop: Any = None) -> list[Any]:
    return list(source.read(source.get_range_tracker(start, stop)))


def test_splits_have_the_elements_of_the_source() -> None:
    """Also each by itself."""
    source = ConcatSource([Numbers(0, 5), SourceBundle(4, Numbers(5, 9), 6, 9)])
    splits = list(source.split(3))
    assert [(3, 0, 3), (2, 3, 5), (3, 5, 8), (1, 8, 9)] == [(each.weight, *each[2:]) for each in splits]
    assert [0, 1, 2, 3, 4, 6, 7, 8] == read(source)
    assert list(range(9)) == [n for each in splits for n in read(*each[1:])]
    with pytest.raises(ValueError, match="split as a whole"):
        list(source.split(3, (1, None)))


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", range(8))
def test_a_concatenation_is_split_while_it_is_read(count: int, fraction: float) -> None:
    """What the reader still reads and what was split off are all elements, once."""
    source = ConcatSource([Numbers(0, 3), Numbers(3, 7)])
    tracker = source.get_range_tracker()
    reading = source.read(tracker)
    elements = [next(reading) for _ in range(count)]
    split = tracker.try_split(tracker.position_at_fraction(fraction))
    elements += reading
    if split is not None:
        position, part = split
        assert 0 <= part <= 1
        elements += read(source, position)
    assert list(range(7)) == elements


def test_a_concatenation_is_split_between_and_within_its_sources() -> None:
    """The fractions are those of Beam."""
    source = ConcatSource([SourceBundle(3, Numbers(0, 3), None, None), SourceBundle(1, Numbers(3, 7), None, None)])
    tracker = source.get_range_tracker()
    assert 0 == tracker.fraction_consumed()
    next(source.read(tracker))
    assert ((1, None), 0.75) == tracker.try_split((1, None))
    assert (None, None) == (tracker.try_split((1, None)), tracker.try_split((2, 0)))
    assert (0, 2) == tracker.position_at_fraction(0.5)
    assert tracker.stop_position() == (1, None)


def test_files_are_split_at_bytes(tmp_path: Path) -> None:
    """A line is in the range where it starts."""
    for name, content in ("a", b"one\ntwo\nthree\n"), ("b", b"four\n"), ("empty", b""):
        (tmp_path / name).write_bytes(content)
    source = Lines(f"{tmp_path}/*")
    assert 19 == source.estimate_size()
    splits = [pickle.loads(pickle.dumps(each)) for each in source.split(5)]
    assert [5, 5, 4, 5] == [each.weight for each in splits]
    assert [[b"one", b"two"], [b"three"], [], [b"four"]] == [read(*each[1:]) for each in splits]
    assert [b"one", b"two", b"three", b"four"] == read(source)
    assert 2 == len(list(Lines(f"{tmp_path}/*", min_bundle_size=1000).split(5)))
    assert 2 == len(list(Lines(f"{tmp_path}/*", splittable=False).split(5)))


def test_a_compressed_file_is_read_as_a_whole(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n" * 1000))
    source = Lines(f"{tmp_path}/a.gz")
    [split] = source.split(5)
    assert [b"one"] * 1000 == read(*split[1:])
    assert b"one\n" == FileBasedSource(f"{tmp_path}/a.gz").open_file(f"{tmp_path}/a.gz").readline()


def test_a_pattern_without_files_is_an_error(tmp_path: Path) -> None:
    """Unless it isn't validated."""
    with pytest.raises(OSError, match="Lines: No files found"):
        Lines(f"{tmp_path}/none")
    assert [] == read(Lines(f"{tmp_path}/none", validate=False))
    with pytest.raises(TypeError, match="Lines: file_pattern must be a str"):
        Lines(1)
    with pytest.raises(TypeError, match="Lines: compression_type"):
        Lines("a", compression_type="zip")


def test_what_a_source_does_not_define_is_named() -> None:
    for method, arguments in ("split", (1,)), ("read", (None,)), ("get_range_tracker", (None, None)):
        with pytest.raises(NotImplementedError, match=f"BoundedSource.{method}"):
            getattr(BoundedSource(), method)(*arguments)
