"""A streaming DataFrame on the driver before its query starts and after it ends.  Spark isn't needed."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from support.execution.subtasks import graph_of

import penstock as beam
from penstock.runners.execution.checkpoints.storage import LocalDisk
from penstock.runners.spark.micro_batch.structured_streaming import DriverFrameStream, StreamSettings
from penstock.sdk.errors import RunnerError


@attrs.define
class Query:
    """A fake of one of Spark's queries."""

    isActive: bool = True
    failure: Exception | None = None

    def exception(self) -> Exception | None:
        return self.failure


def stream(query: Query | None) -> DriverFrameStream:
    """Return an available-now stream with this query."""
    graph = graph_of(lambda p: p | beam.io.FromSparkStream(lambda session: None, timestamp="at"))
    (step,) = graph.tasks[0].sources
    nowhere: Any = None
    found = DriverFrameStream(step, StreamSettings(nowhere, "/nowhere", LocalDisk(), 0, True, lambda: False))
    found._query = query
    return found


def test_data_is_awaited_until_the_query_has_read_all() -> None:
    """Also before it starts: bounded sources are read first, and may be empty."""
    assert stream(None).awaits_data
    assert stream(Query(isActive=True)).awaits_data
    assert not stream(Query(isActive=False)).awaits_data


def test_a_drained_stream_whose_query_has_not_begun_awaits_nothing() -> None:
    """The query doesn't start any more."""
    drained = stream(None)
    drained.drain()

    assert not drained.awaits_data


def test_a_query_that_has_failed_is_not_taken_for_one_that_has_read_all() -> None:
    """Even if the failure is noticed late, the run isn't done."""
    with pytest.raises(RunnerError, match=r"FromSparkStream: Spark's streaming query failed: no broker"):
        _ = stream(Query(isActive=False, failure=ValueError("no broker\nand a stack"))).awaits_data
