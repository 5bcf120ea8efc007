"""A stream that goes on: it keeps as much at its 200th window as at its 100th, in memory and in checkpoints."""

from __future__ import annotations

import gc
import os
import pathlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from support.runners import restartable_streams

import penstock as beam
from penstock.coders import StrUtf8Coder, VarIntCoder
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.kernels import runtime
from penstock.runners.execution.streaming import snapshot_chunks
from penstock.runners.execution.windows import firing, trigger_state
from penstock.runners.local.job import status
from penstock.runners.local.job.job import Job
from penstock.sdk.user_code import step_slot
from penstock.testing import ScriptedSource
from penstock.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimeDomain,
    TimerSpec,
    on_timer,
)
from penstock.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from penstock.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, TimestampedValue

# Half of the keys of a window are new in it.
ELEMENTS = [
    TimestampedValue((f"{'key' * 30} {i if i % 2 else (window, i)}", window), 10 * window + i)
    for window in range(205)
    for i in range(4)
]


class Numbered(beam.DoFn):
    """Numbers that are others in each call."""

    deterministic = False

    def __init__(self) -> None:
        self.number = 0

    def process(self, pair: Any) -> Any:
        self.number += 1
        yield pair, self.number


async def answered(pair: Any) -> Any:
    """What a service says."""
    return pair


class Stateful(beam.DoFn):
    """Uses each kind of state, and a timer."""

    VALUE = ReadModifyWriteStateSpec("value", VarIntCoder())
    BAG = BagStateSpec("bag", VarIntCoder())
    SET = SetStateSpec("set", VarIntCoder())
    SUM = CombiningValueStateSpec("sum", sum)
    LIST = OrderedListStateSpec("list", StrUtf8Coder())
    TIMER = TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        value: Any = beam.DoFn.StateParam(VALUE),
        bag: Any = beam.DoFn.StateParam(BAG),
        seen: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        ordered: Any = beam.DoFn.StateParam(LIST),
        timer: Any = beam.DoFn.TimerParam(TIMER),
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Any:
        _, number = pair
        value.write(number), bag.add(number), seen.add(number), total.add(number)
        ordered.add((timestamp, pair[0]))
        timer.set(window.end)
        yield pair

    @on_timer(TIMER)
    def due(self) -> Any:
        yield "due", 1


EARLY = AfterWatermark(early=AfterCount(1))
RETRACTING, DISCARDING = AccumulationMode.RETRACTING, AccumulationMode.DISCARDING


def fixed(pairs: Any, **how: Any) -> Any:
    """Windows of ten seconds."""
    return pairs | "Window" >> beam.WindowInto(FixedWindows(10), **how)


def maintained(pairs: Any) -> Any:
    """Sums that are retracted."""
    return fixed(pairs, trigger=EARLY, accumulation_mode=RETRACTING) | "Sum" >> beam.CombinePerKey(sum)


def seen_beside(pairs: Any, side: Any) -> Any:
    """Pairs with a side input of their window."""
    return fixed(pairs) | "See" >> beam.Map(lambda pair, seen: (pair[0], len(seen)), side)


# By name, what is done to pairs.
KINDS: dict[str, Callable[[Any], Any]] = {
    "groups": lambda pairs: fixed(pairs) | beam.GroupByKey(),
    "sliding": lambda pairs: pairs | beam.WindowInto(SlidingWindows(20, 10)) | beam.CombinePerKey(sum),
    "sessions": lambda pairs: pairs | beam.WindowInto(Sessions(5)) | beam.GroupByKey(),
    "late panes": lambda pairs: (
        fixed(
            pairs,
            trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
            accumulation_mode=RETRACTING,
            allowed_lateness=20,
        )
        | beam.CombinePerKey(sum)
    ),
    "retracted groups": lambda pairs: maintained(pairs) | beam.GroupByKey(),
    "retracted sessions": lambda pairs: (
        pairs
        | beam.WindowInto(Sessions(5), trigger=EARLY, accumulation_mode=RETRACTING)
        | beam.CombinePerKey(sum)
        | "Again" >> beam.GroupByKey()
    ),
    "recorded": lambda pairs: maintained(pairs) | beam.ParDo(Numbered()),
    "asynchronous": lambda pairs: maintained(pairs) | beam.AsyncMap(answered),
    "stateful": lambda pairs: fixed(pairs) | beam.ParDo(Stateful()),
    "side list": lambda pairs: seen_beside(pairs, beam.pvalue.AsList(fixed(pairs | beam.Keys()))),
    "side table": lambda pairs: seen_beside(
        pairs, beam.pvalue.AsDict(pairs | "Side" >> beam.ptransform_fn(maintained)())
    ),
    "duplicates": lambda pairs: fixed(pairs) | beam.Deduplicate(event_time_duration=10),
    "distinct": lambda pairs: fixed(pairs) | beam.Distinct(),
    "batches": lambda pairs: fixed(pairs) | beam.GroupIntoBatches(3),
    "joined": lambda pairs: (
        {1: fixed(pairs), 2: pairs | "2" >> beam.WindowInto(FixedWindows(10))} | beam.CoGroupByKey()
    ),
    "reshuffled": lambda pairs: fixed(pairs) | beam.Reshuffle(),
    "reshuffled by key": lambda pairs: fixed(pairs) | beam.ReshufflePerKey(),
    "one key": lambda pairs: (
        pairs
        | beam.Map(lambda pair: (None, pair[1]))
        | beam.WindowInto(GlobalWindows(), trigger=Repeatedly(AfterCount(3)), accumulation_mode=DISCARDING)
        | beam.GroupByKey()
    ),
}

# The window that the stream has reached: functions are copied, but the environment is that of the process.
REACHED = "PENSTOCK_TEST_WINDOW"


def reach(pair: Any) -> None:
    """Note the window of an element."""
    os.environ[REACHED] = str(pair[1])


class Sizes:
    """What is kept at each checkpoint, by the last window before it.

    Attributes:
      memory: the bytes that Python has allocated.
      checkpoints: the bytes of the checkpoint before it.
    """

    def __init__(self, job: Job, trace: list[str]) -> None:
        self.memory: dict[int, int] = {}
        self.checkpoints: dict[int, int] = {}
        self._job = job
        self._trace = trace

    def note(self, path: str) -> None:
        """Measure, if a checkpoint is complete."""
        window, size = int(os.environ[REACHED]), self._job.status.checkpoint_size
        if "manifest-" not in path or size is None or window in self.checkpoints:
            return
        self.checkpoints[window] = size
        if window < 90 or 130 <= window < 170:
            return
        # The simulation's own log of its steps.
        self._trace.clear()
        gc.collect()
        self.memory[window] = tracemalloc.get_traced_memory()[0]


def least(sizes: dict[int, int], first: int, end: int) -> int:
    """Return the least size of some windows: that of a whole snapshot."""
    return min(size for window, size in sizes.items() if first <= window < end)


def test_nothing_grows_with_the_number_of_windows(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps state, all in one stream: groups, ParDos, side inputs, recorded outputs, shuffles."""
    # Caches are full after a few windows, as after a day.
    monkeypatch.setattr(runtime, "_REMEMBERED_BUCKETS", 20)
    monkeypatch.setattr(trigger_state, "_REMEMBERED", 20)
    monkeypatch.setattr(status, "_KEPT_METRICS", 3)
    # Each stage has both of its kernels, and each step a time.
    monkeypatch.setattr(step_slot, "_SHORT", 0.0)
    monkeypatch.setattr(step_slot, "TIMED", 1)
    monkeypatch.setattr(step_slot, "_SPLIT", 0.0)
    monkeypatch.setattr(firing, "pane_of", firing.pane_of.__wrapped__)
    monkeypatch.setattr(snapshot_chunks, "_header_of", snapshot_chunks._header_of.__wrapped__)
    monkeypatch.setenv(REACHED, "0")
    p = beam.Pipeline(options=PipelineOptions(["--auto_unique_labels"]))
    pairs = p | beam.io.Read(ScriptedSource([ELEMENTS]))
    for name, kind in KINDS.items():
        _ = pairs | name >> beam.ptransform_fn(kind)()
    _ = pairs | beam.Map(reach)
    stream = restartable_streams.Stream(tmp_path)
    job = stream.job(1, p)
    sizes = Sizes(job, stream.world.trace)
    stream.disk.before = sizes.note
    # What was there before is no part of what is measured.
    gc.collect()
    gc.freeze()
    tracemalloc.start()
    try:
        job.run()
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    assert least(sizes.memory, 170, 205) - least(sizes.memory, 90, 130) < 40_000
    assert least(sizes.checkpoints, 130, 205) < 1.5 * least(sizes.checkpoints, 20, 60)
