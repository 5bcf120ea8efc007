"""FirstElements: bounded reads of endless sources, by a number of elements or for a time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.io.first_elements import FirstElements, ReadLimits
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SourceError
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.testing import assert_that, equal_to


class Numbers(UnboundedSource[int]):
    """Whole numbers of two partitions, which give one by one."""

    def partitions(self) -> list[int]:
        return [0, 1000]

    def open(self, partition: int, offset: Any) -> NumbersReader:
        return NumbersReader(partition)


class NumbersReader(UnboundedReader[int]):
    def __init__(self, next: int) -> None:
        self._next = next

    def poll(self, max_elements: int, now: Any) -> Bundle:
        self._next += 1
        return Bundle([self._next], now.micros)

    def offset(self) -> int:
        return self._next

    def watermark(self, now: Any) -> int:
        return int(now.micros)


def test_a_number_of_elements_is_read_from_all_partitions(make_pipeline: Any) -> None:
    with make_pipeline() as p:
        numbers = p | beam.io.Read(FirstElements(Numbers(), ReadLimits(5, None), "Read"))
        assert_that(numbers, equal_to([1, 2, 3, 1001, 1002]))


def test_reading_ends_after_a_time() -> None:
    began = time.monotonic()
    bundles = list(FirstElements(Numbers(), ReadLimits(None, 0.2), "Read").read_bundles([0]))
    assert list(range(1, len(bundles) + 1)) == [value for bundle in bundles for value in bundle.values]
    assert 0.2 < time.monotonic() - began


def test_a_stream_does_not_resume_in_the_middle(tmp_path: Path) -> None:
    """Since other elements would arrive, and those that the checkpoint counts would be left out."""
    kept, failed = tmp_path / "kept", tmp_path / "failed"

    def fail_after_a_checkpoint(number: int) -> int:
        if number % 100 == 0 and not failed.exists() and SnapshotStore(LocalDisk(), str(kept)).checkpoints():
            failed.touch()
            raise ArithmeticError
        return number

    options = PipelineOptions([], checkpoint_dir=str(kept), checkpoint_interval=0.05, max_restarts=1)
    p = beam.Pipeline("local", options=options)
    numbers = p | beam.io.Read(FirstElements(Numbers(), ReadLimits(None, 100), "Read"))
    _ = numbers | beam.Map(fail_after_a_checkpoint)
    with pytest.raises(SourceError, match="Read: a read with max_num_records or max_read_time can't resume in the mid"):
        p.run().wait_until_finish()
    assert failed.exists()


@pytest.mark.parametrize("options", [(0, None), (None, -1.0)])
def test_limits_are_more_than_nothing(options: Any) -> None:
    with pytest.raises(ValueError, match=r"^Read: max_\w+ must be more than 0, got "):
        ReadLimits.of("Read", *options)
