"""Processing-time timers that are set when a stream has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.recording import record
from support.runners.local_variants import IN_THIS_PROCESS, SideBySide

import penstock as beam
from penstock.sdk.userstate import BagStateSpec, TimerSpec, on_timer
from penstock.testing import ScriptedSource, TestPipeline, TestStream
from penstock.windowing import TimestampedValue


class Later(beam.DoFn):
    """Keeps what comes for an hour."""

    KEPT = BagStateSpec("kept")
    CLOCK = TimerSpec("clock", beam.TimeDomain.REAL_TIME)

    def process(
        self, element: Any, kept: Any = beam.DoFn.StateParam(KEPT), clock: Any = beam.DoFn.TimerParam(CLOCK)
    ) -> None:
        kept.add(element[1])
        clock.set_relative(3600)

    @on_timer(CLOCK)
    def on_clock(self, key: Any = beam.DoFn.KeyParam, kept: Any = beam.DoFn.StateParam(KEPT)) -> Iterator[Any]:
        yield key, sorted(kept.read())
        kept.clear()


def kept_of(runner: Any, source: Any) -> list[Any]:
    """Return the outputs."""
    with TestPipeline(runner) as p:
        changes = record(p | source | beam.ParDo(Later()))
    return sorted(change.value for change in changes.changes)


STREAM = [[TimestampedValue(("a", 1), 1), TimestampedValue(("b", 2), 2)], [TimestampedValue(("a", 3), 3)]]


@pytest.mark.parametrize("variant", IN_THIS_PROCESS)
def test_a_stream_that_ends_or_is_drained_keeps_nothing_back(variant: str) -> None:
    """As a batch doesn't: no time will come any more, and what was buffered was lost with its window."""
    runner = SideBySide(IN_THIS_PROCESS[variant])

    assert [("a", [1, 3]), ("b", [2])] == kept_of(runner, beam.io.Read(ScriptedSource(STREAM)))
    assert [("a", [1, 3]), ("b", [2])] == kept_of(runner, beam.Create([each for part in STREAM for each in part]))


def test_a_script_says_itself_what_time_comes() -> None:
    """Also where its watermark goes to infinity."""
    script = TestStream().add_elements([("a", 1)]).advance_watermark_to_infinity()

    assert [] == kept_of(SideBySide(IN_THIS_PROCESS["local-2"]), script)
