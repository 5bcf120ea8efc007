"""Sources that users have written, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import penstock as beam
from penstock.io import UnboundedReader, UnboundedSource
from penstock.runners.execution.streaming.sources import checked_backlog, checked_watermark, checked_watermarks
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.errors import SourceError
from penstock.windowing import Timestamp


class Once(UnboundedSource[Any]):
    """Gives what a test has it give."""

    def __init__(self, partitions: Any = ("all",), bundle: Any = None, watermark: Any = 0) -> None:
        self.given = partitions
        self.bundle = bundle
        self.watermark = watermark

    def partitions(self) -> Any:
        return self.given

    def open(self, partition: Any, offset: Any) -> UnboundedReader[Any]:
        return OnceReader(self)


class OnceReader(UnboundedReader[Any]):
    def __init__(self, source: Once) -> None:
        self.source = source
        self.is_read = False

    def poll(self, max_elements: int, now: Timestamp) -> Any:
        bundle, self.is_read = (None if self.is_read else self.source.bundle), True
        return bundle

    def offset(self) -> bool:
        return self.is_read

    def watermark(self, now: Timestamp) -> Any:
        return self.source.watermark

    def is_finished(self) -> bool:
        return self.is_read


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Once(partitions=None), r"expected partitions\(\) to give a list, got None"),
        (Once(partitions="abc"), r"expected partitions\(\) to give a list, got 'abc'"),
        (Once(partitions=[["a"]]), r"expected partitions with a hash, .*, got \['a'\]"),
        (Once(bundle=[1]), r"expected poll\(\) to give a Bundle, or None, got \[1\]; make it Bundle\(values, timest"),
        (Once(bundle=Bundle([1, 2], [0])), r"expected as many timestamps as values from poll\(\), got 1 for 2"),
        (Once(watermark=None), r"expected watermark\(\) to give microseconds since 1970, an int, got None"),
        (Once(watermark=Timestamp(1)), r"expected watermark.* an int, got Timestamp\(1\); give its \.micros"),
    ],
)
def test_what_a_source_gives_that_is_none_is_named(source: Once, expected: str) -> None:
    """With the transform; elements without timestamps were lost, and what else it was came out as Python's errors."""
    with pytest.raises(SourceError, match=rf"^Mine: {expected}"), beam.Pipeline(argv=["--max_restarts=0"]) as p:
        _ = p | "Mine" >> beam.io.Read(source)


def test_numbers_of_other_kinds_are_watermarks_too() -> None:
    """Such as NumPy's."""
    assert [7, 8] == [checked_watermark(np.int64(7), "Mine"), checked_watermark(8, "Mine")]


def test_percentile_watermarks_and_backlogs_are_numbers() -> None:
    """Other types used to cause a Python error without the transform's name, where they were added or compared."""
    expected = r"^Mine: expected watermarks\(\)\[0\.5\] to be microseconds since 1970, an int, got Timestamp\(1\)"
    with pytest.raises(SourceError, match=expected):
        checked_watermarks({0.5: Timestamp(1)}, "Mine")
    with pytest.raises(SourceError, match=r"^Mine: expected watermarks\(\) to give microseconds .* by share, .*5$"):
        checked_watermarks(5, "Mine")
    with pytest.raises(SourceError, match=r"^Mine: expected backlog\(\) to give .*, an int, or None, got 'many'$"):
        checked_backlog("many", "Mine")
    assert ({0.5: 7}, None, 8) == (
        checked_watermarks({0.5: np.int64(7)}, "Mine"),
        checked_backlog(None, "Mine"),
        checked_backlog(8.5, "Mine"),
    )
