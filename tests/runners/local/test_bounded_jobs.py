"""Bounded pipelines that run as jobs: side by side, or with checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.pipelines.recording import Recording, record
from support.runners.local_variants import IN_THIS_PROCESS, SideBySide

import penstock as beam
from penstock.sdk.options import PipelineOptions
from penstock.sdk.userstate import TimerSpec, on_timer
from penstock.testing import TestPipeline
from penstock.triggers import AccumulationMode, AfterProcessingTime, Repeatedly


@pytest.fixture(params=IN_THIS_PROCESS)
def runner(request: pytest.FixtureRequest) -> Any:
    """A runner of each variant in turn."""
    return SideBySide(IN_THIS_PROCESS[request.param])


def test_a_pipeline_without_transforms_ends(runner: Any) -> None:
    """A plan without steps still has one subtask, which reports that it is complete."""
    assert "DONE" == TestPipeline(runner).run().state


class Largest(beam.CombineFn):
    """Counts the elements that are added, as a metric."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        beam.metrics.Metrics.counter("app", "added").inc()
        return max(accumulator, element)

    def merge_accumulators(self, accumulators: Any) -> int:
        return max(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


def test_what_a_combiner_reports_is_its_steps(runner: Any) -> None:
    """Also where its windows are triggered, and no stage folds for it."""
    p = TestPipeline(runner)
    _ = p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | "largest" >> beam.CombinePerKey(Largest())
    counters = p.run().metrics().query(beam.metrics.MetricsFilter().with_name("added"))["counters"]
    assert [("largest", 3)] == [(found.key.step, found.committed) for found in counters]


class Alarm(beam.DoFn):
    """Says at which event time a timer of either clock fires; that of the wall is past both."""

    EVENT = TimerSpec("event", beam.TimeDomain.WATERMARK)
    CLOCK = TimerSpec("clock", beam.TimeDomain.REAL_TIME)

    def process(
        self, element: Any, event: Any = beam.DoFn.TimerParam(EVENT), clock: Any = beam.DoFn.TimerParam(CLOCK)
    ) -> Iterator[Any]:
        clock.set(1)
        event.set(2)
        yield "element"

    @on_timer(EVENT)
    def at_event_time(self) -> Iterator[Any]:
        yield "event"

    @on_timer(CLOCK)
    def at_processing_time(self) -> Iterator[Any]:
        yield "clock"


def test_no_time_goes_by_while_a_bounded_input_is_read(runner: Any) -> None:
    """Or results would depend on how fast it is: timers of the clock fire when all is over, as in a plain run."""
    with TestPipeline(runner) as p:
        found = record(p | beam.Create([("a", 1)]) | beam.ParDo(Alarm()))
    assert ["element", "event", "clock"] == [change.value for change in found.changes]


def test_a_bounded_input_has_one_pane_of_each_window(runner: Any) -> None:
    """The wall clock has no influence."""
    windows = beam.WindowInto(
        beam.window.GlobalWindows(),
        trigger=Repeatedly(AfterProcessingTime(1e-6)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    found: Recording
    with TestPipeline(runner) as p:
        pairs = p | beam.Create([[("a", i)] for i in range(2000)]) | beam.FlatMap(list)
        found = record(pairs | windows | beam.CombinePerKey(sum))
    assert [("a", sum(range(2000)))] == [change.value for change in found.changes]


def test_workers_that_would_have_nothing_to_do_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The user may have forgotten `--parallelism`."""
    p = beam.Pipeline("local", PipelineOptions(["--workers=3", f"--checkpoint_dir={tmp_path}"]))
    _ = p | beam.Create([1])
    p.run()
    assert "--workers=3: only 1 of them would have work, with --parallelism=1" in caplog.text


@pytest.mark.parametrize("flags", [["--parallelism=2"], ["--delivery=strong"]], ids=["barriers", "strong"])
def test_an_empty_output_is_published_once_by_a_run_and_its_restarts(flags: list[str], tmp_path: Path) -> None:
    """The end names the transaction, in which nothing was staged; a restart leaves alone what a reader has removed."""
    options = PipelineOptions([f"--checkpoint_dir={tmp_path / 'kept'}", "--workers=1", *flags])

    def run() -> list[str]:
        with beam.Pipeline(options=options) as p:
            _ = p | beam.Create([1]) | beam.Filter(lambda n: n > 1) | beam.io.WriteToText(str(tmp_path / "out"))
        return sorted(path.name for path in tmp_path.iterdir())

    assert ["kept", "out-00000-of-00001"] == run()
    (tmp_path / "out-00000-of-00001").unlink()
    assert ["kept"] == run()
