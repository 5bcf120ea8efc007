"""(g) What a snapshot costs of 200,000 timers, values of a side input, or remembered outputs: one in a hundred changes.

Measured is the CPU time of making the snapshot and of serialising it, in the process itself: as where there can be no
forked child, in a stream with one worker and on Spark.  A row has it and the bytes, of whole snapshots and of changes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

from harness.timing import Figure, Figures, Quantity, Result

import penstock as beam
from penstock.runners.execution.clock import Clock
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.plan.execution_graph import whole
from penstock.runners.execution.plan.fusion import Keyed, Stage, fuse
from penstock.runners.execution.streaming.snapshot import snapshot
from penstock.runners.execution.streaming.snapshot_chunks import records_of
from penstock.runners.execution.streaming.task_program import TaskProgram
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.metrics import MetricsContainer
from penstock.sdk.userstate import TimerSpec, on_timer
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import GLOBAL_WINDOW, GlobalWindows

NUMBER = 200_000
RUNS = 5

Push = Callable[[Bundle], None]


class Expiring(beam.DoFn):
    """Keeps a timer for each key, which every element moves."""

    END = TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(self, element: Any, end: Any = beam.DoFn.TimerParam(END)) -> None:
        end.set(element[1])

    @on_timer(END)
    def over(self, key: Any = beam.DoFn.KeyParam) -> Iterator[Any]:
        yield key


class Timed(beam.DoFn):
    """Puts out something else each time."""

    deterministic = False

    def process(self, element: Any) -> Iterator[Any]:
        yield element, time.perf_counter()


def _timers(p: beam.Pipeline) -> None:
    _ = p | beam.Create([("a", 1)]) | "Kept" >> beam.ParDo(Expiring())


def _side_input(p: beam.Pipeline) -> None:
    side = p | "Side" >> beam.Create([1])
    _ = p | "Main" >> beam.Create([1]) | "Kept" >> beam.Map(lambda value, side: value, beam.pvalue.AsList(side))


def _outputs(p: beam.Pipeline) -> None:
    again = beam.WindowInto(
        GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.RETRACTING
    )
    _ = p | beam.Create([("a", 1)]) | again | beam.CombinePerKey(sum) | "Kept" >> beam.ParDo(Timed())


def _execution(build: Callable[[beam.Pipeline], None]) -> tuple[TaskProgram, Push]:
    pipeline = beam.Pipeline()
    build(pipeline)
    graph = whole(fuse(pipeline.graph(), lambda *_: False))
    (task,) = graph.tasks
    execution = TaskProgram(graph.plan, task, Clock(), MetricsContainer(), Counts(), "run-1")
    if execution.side_inputs:
        return execution, partial(execution.views.add, *execution.side_inputs)
    (step,) = [step for step in task.steps if isinstance(step, (Keyed, Stage)) and "Kept" in _label(step)]
    return execution, execution.dataflow.stages[step.id].receive


def _label(step: Keyed | Stage) -> str:
    return step.stage.label if isinstance(step, Keyed) else step.label


def costs(build: Callable[[beam.Pipeline], None]) -> list[tuple[float, int]]:
    """Milliseconds of CPU time, and bytes: of a whole snapshot, and of each of several with changes."""
    execution, push = _execution(build)
    found = []
    for run in range(RUNS + 1):
        keys = range(NUMBER) if run == 0 else range(run, NUMBER, 100)
        for first in range(0, len(keys), 1_000):
            push(Bundle([(key, run) for key in keys[first : first + 1_000]], 0, (GLOBAL_WINDOW,)))
        gc.collect()
        before = time.process_time()
        size = sum(map(len, records_of(snapshot(execution, is_whole=run == 0))))
        found.append(((time.process_time() - before) * 1000, size))
    return found


def run() -> list[Result]:
    found: list[Result] = []
    for name, build in (("timers", _timers), ("a side input", _side_input), ("remembered outputs", _outputs)):
        (whole_time, whole_size), *changes = costs(build)
        cpu, size = map(median, zip(*changes, strict=True))
        found.append(Quantity(f"(g) changes of {name}, 1% of {NUMBER:,}", cpu, 20, "ms", digits=1))
        row = {
            "CPU, full": Figure(whole_time, "ms"),
            "bytes, full": Figure(whole_size / 1e6, "MB", 1),
            "CPU, incremental": Figure(cpu, "ms", 1),
            "bytes, incremental": Figure(size / 1e6, "MB", 2),
        }
        found.append(Figures(name, row))
    return found
