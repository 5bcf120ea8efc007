"""Sources with the interface of Beam, which are read by ranges of positions, on all runners."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.io.filebasedsource import FileBasedSource
from penstock.io.iobase import BoundedSource, SourceBundle
from penstock.io.range_trackers import OffsetRangeTracker
from penstock.transforms.window import TimestampedValue

MIB = 1024 * 1024


class Numbers(BoundedSource):  # type: ignore[misc]
    """The first numbers, with themselves as timestamps.  Each is taken for 1 MiB."""

    def __init__(self, stop: int, failing: int = -1) -> None:
        self.stop = stop
        self.failing = failing

    def estimate_size(self) -> int:
        return self.stop * MIB

    def get_range_tracker(self, start_position: int | None, stop_position: int | None) -> Any:
        return OffsetRangeTracker(start_position or 0, self.stop if stop_position is None else stop_position)

    def split(self, desired_bundle_size: int, start_position: Any = None, stop_position: Any = None) -> Iterator[Any]:
        step = desired_bundle_size // MIB
        for start in range(0, self.stop, step):
            yield SourceBundle(step, self, start, min(start + step, self.stop))

    def read(self, range_tracker: Any) -> Iterator[Any]:
        for n in range(range_tracker.start_position(), self.stop):
            if not range_tracker.try_claim(n):
                return
            if n == self.failing:
                raise ValueError("unreadable")
            yield TimestampedValue(n, n)


class Lines(FileBasedSource):  # type: ignore[misc]
    def read_records(self, file_name: str, offset_range_tracker: Any) -> Iterator[bytes]:
        with self.open_file(file_name) as file:
            start = offset_range_tracker.start_position()
            if start:
                file.seek(start - 1)
                start += len(file.readline()) - 1
            while (line := file.readline()) and offset_range_tracker.try_claim(start):
                start += len(line)
                yield line[:4]


def test_each_element_of_a_source_by_ranges_is_read_once(pipeline: Any) -> None:
    """With its timestamp."""
    numbers = pipeline | beam.io.Read(Numbers(100)) | beam.WindowInto(beam.window.FixedWindows(50))
    sums = numbers | beam.CombineGlobally(sum).without_defaults()
    check([sum(range(50)), sum(range(50, 100))], sums)
    pipeline.run()


def test_each_record_of_a_cut_file_is_read_once(pipeline: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"".join(b"%04d%s\n" % (n, b"x" * MIB) for n in range(3)))
    (tmp_path / "b").write_bytes(b"0003\n")
    lines = pipeline | beam.io.Read(Lines(f"{tmp_path}/*"))
    check([b"0000", b"0001", b"0002", b"0003"], lines)
    pipeline.run()


def test_a_source_by_ranges_that_fails_fails_the_run(pipeline: Any) -> None:
    _ = pipeline | beam.io.Read(Numbers(10, failing=7)) | beam.Map(str)
    with pytest.raises(ValueError, match=r"(?s)unreadable.*Read\(Numbers\)"):
        pipeline.run()


def test_a_transform_is_read_as_it_is(pipeline: Any) -> None:
    check([1, 2], pipeline | beam.io.Read(beam.Create([1, 2])))
    pipeline.run()
