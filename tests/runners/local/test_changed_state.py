"""A pipeline whose steps keep something else than they did: the next start with its checkpoints."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import CheckpointMismatchError
from penstock.sdk.userstate import BagStateSpec, CombiningValueStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, DefaultTrigger, Repeatedly
from penstock.windowing import FixedWindows, Sessions

Build = Callable[[Any], Any]


class KeepsBag(beam.DoFn):
    """Keeps all numbers of a key, and how many there were."""

    BAG, COUNT = BagStateSpec("numbers"), CombiningValueStateSpec("count", sum)

    def process(self, pair: Any, bag: Any = beam.DoFn.StateParam(BAG), count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        bag.add(pair[1])
        count.add(1)
        yield pair[0], count.read()


class KeepsLast(beam.DoFn):
    """The same, but of the numbers keeps the last."""

    LAST, COUNT = ReadModifyWriteStateSpec("numbers"), CombiningValueStateSpec("count", sum)

    def process(
        self, pair: Any, last: Any = beam.DoFn.StateParam(LAST), count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Any:
        assert isinstance(last.read(), (int, type(None)))
        last.write(pair[1])
        count.add(1)
        yield pair[0], count.read()


class SetsTimer(beam.DoFn):
    """For the end of time."""

    TIMER = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(self, pair: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:
        timer.set(10**10)
        yield pair

    @on_timer(TIMER)
    def at_end(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield key, -1


class SetsNone(beam.DoFn):
    """No timer, but keeps a state."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, pair: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        count.add(1)
        yield pair


def summed(combine: Any = sum, windows: Any = None, trigger: Any = None) -> Build:
    """A sum for each key and window."""
    mode = AccumulationMode.DISCARDING
    windowed = beam.WindowInto(
        windows or FixedWindows(10**10), trigger=trigger or DefaultTrigger(), accumulation_mode=mode
    )
    return lambda pairs: pairs | windowed | "Step" >> beam.CombinePerKey(combine)


def done_by(fn: type[beam.DoFn]) -> Build:
    """Return a function that applies a DoFn as the step."""
    return lambda pairs: pairs | "Step" >> beam.ParDo(fn())


def started(directory: pathlib.Path, build: Build, **flags: Any) -> Any:
    """A stream of numbers by their remainder."""
    options = PipelineOptions(
        parallelism=2, workers=1, checkpoint_interval=0.1, checkpoint_dir=str(directory / "kept"), **flags
    )
    p = beam.Pipeline(options=options)
    pairs = p | beam.io.GenerateSequence(0, None, 200, 1) | "By" >> beam.Map(lambda n: (n % 3, n))
    rows = build(pairs) | "Rows" >> beam.Map(lambda pair: {"key": pair[0], "value": int(pair[1])})
    sink = beam.io.WriteToSQLite(directory / "out.db", "rows", columns=["key", "value"], count_column="n")
    _ = rows | "Out" >> sink
    return p.run()


def stop_with_state(directory: pathlib.Path, build: Build, **flags: Any) -> None:
    """Run a stream until some of its state is in a savepoint."""
    result = started(directory, build, **flags)
    wait_until(lambda: any(n.written > 20 for n in result._job.status.attempted.counts.steps.values()), "elements")
    assert "CANCELLED" == result.stop_with_savepoint()


CHANGES = {
    "combiner": (summed(), summed(beam.combiners.MeanCombineFn()), r"windows \(then: SumCombineFn, for .*; now: MeanC"),
    "trigger": (
        summed(),
        summed(trigger=AfterWatermark(early=AfterCount(9))),
        r"windows \(then: SumCombineFn, for DefaultTrigger; now: SumCombineFn, for AfterWatermark\(Repeatedly\(AfterC",
    ),
    "kind of state": (
        done_by(KeepsBag),
        done_by(KeepsLast),
        r"state numbers \(then: BagStateSpec; now: ReadModifyWriteStateSpec\)",
    ),
    "timer": (done_by(SetsTimer), done_by(SetsNone), r"timer end \(then: WATERMARK; now: none\)"),
    "kind of step": (
        summed(),
        lambda pairs: pairs | "Step" >> beam.Filter(lambda pair: True),
        r"windows \(then: SumCombineFn, for DefaultTrigger; now: none\)",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_state_that_a_step_cannot_go_on_with_is_refused_by_name(tmp_path: pathlib.Path, change: str) -> None:
    """It failed in the midst of things, as if by the user's code; if it may be dropped, only that is."""
    first, second, expected = CHANGES[change]
    stop_with_state(tmp_path, first)

    with pytest.raises(
        CheckpointMismatchError, match=rf"has state of another kind .*: 'Step': {expected}.*--allow_drop"
    ):
        started(tmp_path, second).wait_until_finish()

    result = started(tmp_path, second, allow_dropped_state=True)
    wait_until(lambda: result._job.checkpoints_completed >= 2 or "RUNNING" != result.state, "checkpoints")
    assert "DRAINED" == result.drain()
    if change == "kind of state":
        # The count that stands beside it has gone on.
        connection = sqlite3.connect(tmp_path / "out.db")
        assert {1} == {n for (n,) in connection.execute("SELECT n FROM rows")}
        connection.close()


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "kind of step"])
def test_strong_delivery_refuses_it_too(tmp_path: pathlib.Path, change: str) -> None:
    """When the pipeline starts, before it takes the logs over; the former pipeline goes on."""
    first, second, expected = CHANGES[change]
    stop_with_state(tmp_path, first, delivery="strong")
    match = rf"logs have state of another kind .*: 'Step': {expected}.*another --checkpoint_dir"
    with pytest.raises(CheckpointMismatchError, match=match):
        started(tmp_path, second, delivery="strong").cancel()
    stop_with_state(tmp_path, first, delivery="strong")


def test_what_begins_empty_or_has_other_numbers_is_gone_on_with(tmp_path: pathlib.Path) -> None:
    """Another size of windows, sessions, another count; a state or timer that is new."""
    stop_with_state(tmp_path, summed(trigger=Repeatedly(AfterCount(10**6))))
    result = started(tmp_path, summed(windows=Sessions(10**6), trigger=Repeatedly(AfterCount(10**7))))
    wait_until(lambda: result._job.checkpoints_completed >= 1, "a checkpoint")
    assert "DRAINED" == result.drain()
