"""Recording of the panes of a grouping, while a script (TestStream) is played.

The recorder listens on the PCollections in front of the grouping and behind it, so the run is as without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...sdk import graph
from ...sdk.coders.coded_key import plain
from ...sdk.drawing.panes import Element, Interval, Pane, PaneRecording, WatermarkAdvance
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import PenstockError, UnsupportedError
from ...sdk.graph import Graph
from ...sdk.metrics import MetricsContainer
from ...sdk.options import PipelineOptions
from ...windowing import IntervalWindow
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..execution.clock import ProcessingTime, steady_time
from ..execution.inspection.json_values import json_value, text_of
from ..execution.plan.execution_graph import ExecutionGraph, whole
from ..execution.plan.fusion import Grouping, Plan, fuse
from ..execution.sinks.committer import with_dead_letters
from ..execution.streaming.task_program import TaskProgram
from .job.barrier_delivery import BarrierDelivery
from .job.context import JobSettings
from .job.job import Job
from .workers.pool import WorkersInThisProcess
from .workers.protocol import Command, Play
from .workers.slot import Start


def record_panes(
    pipeline: Graph, options: PipelineOptions, step: str | None, metrics: MetricsContainer, events: int | None = None
) -> list[PaneRecording]:
    """Run a pipeline with a script to its end, and return a recording for each key of a grouping.

    Args:
      step: the full label of the grouping, or of its composite; None for the only one.
      events: the number of events of the script after which the recording ends; None for all, and the end of input.

    Raises:
      UnsupportedError: the pipeline has no script.
      PenstockError: there is no such grouping, or several without `step`.
    """
    if not pipeline.has_script:
        reads = ", ".join(
            transform.label for transform in pipeline.transforms if isinstance(transform.primitive, graph.Read)
        )
        raise UnsupportedError(
            f"a drawing needs a script of processing times, and this pipeline reads {reads}: replace the source by a "
            "TestStream, or draw a recording of a running job"
        )
    plan = fuse(with_dead_letters(pipeline, options))
    recorder = _Recorder(_grouping_of(plan, step))
    after: list[list[PaneRecording]] = []

    def played() -> None:
        recorder.advanced()
        if events is not None:
            after.append(recorder.recordings())

    now = ProcessingTime()
    workers = _RecordingWorkers(now, recorder.observe, played)
    job = Job(whole(plan), workers, JobSettings(), BarrierDelivery(None), steady_time, time.sleep, time=now)
    job.run()
    recorder.advanced()
    metrics.merge(job.status.committed.user_metrics)
    return recorder.recordings() if events is None else after[events]


def _grouping_of(plan: Plan, step: str | None) -> Grouping:
    groupings = [each for each in plan.steps if isinstance(each, Grouping)]
    labels = [each.transform.label for each in groupings]
    chosen = [
        each
        for each in groupings
        if step is None or each.transform.label == step or each.transform.label.startswith(f"{step}/")
    ]
    if len(chosen) == 1:
        return chosen[0]
    have = ", ".join(map(repr, labels)) or "none"
    if not chosen:
        what = "the pipeline has no grouping" if step is None else f"{step!r} is no grouping"
        raise PenstockError(f"{what}, so it has no panes to draw. Groupings: {have}")
    raise PenstockError(f"the pipeline has several groupings: give one with --step. Groupings: {have}")


class _RecordingWorkers(WorkersInThisProcess):
    """A slot in this process whose task is observed.

    Args:
      observe: called with the task before its first element.
      played: called before each event of the script, when everything that the last one made due has been done.
    """

    def __init__(
        self, clock: ProcessingTime, observe: Callable[[TaskProgram], None], played: Callable[[], None]
    ) -> None:
        super().__init__(clock)
        self._observe = observe
        self._played = played

    def start(self, execution_graph: ExecutionGraph, start: Start) -> None:
        super().start(execution_graph, start)
        (subtask,) = self.slot.subtasks.values()
        self._observe(subtask.execution)

    def send(self, command: Command) -> None:
        if isinstance(command, Play):
            self._played()
        super().send(command)


class _Recorder:
    """Records the elements, the watermark and the panes of a grouping, by key."""

    def __init__(self, step: Grouping) -> None:
        self._step = step
        self._label = step.transform.label
        # By the text of the key.
        self._keys: dict[str, Any] = {}
        self._elements: dict[str, list[Element]] = {}
        self._panes: dict[str, list[Pane]] = {}
        self._watermark: list[WatermarkAdvance] = []
        self._last = MIN_MICROS

    def observe(self, execution: TaskProgram) -> None:
        """Listen in front of the grouping and behind it."""
        self._clock = execution.clock
        self._grouping = execution.groupings[self._label]
        transform = self._step.transform
        for pcollection in transform.inputs:
            execution.dataflow.attach(pcollection, self._arrived)
        execution.dataflow.attach(transform.outputs[None], self._emitted)

    def recordings(self) -> list[PaneRecording]:
        """Return a recording for each key, in the order in which they came."""
        return [
            PaneRecording(
                self._label,
                key,
                tuple(self._elements.get(name, ())),
                tuple(self._watermark),
                tuple(self._panes.get(name, ())),
                self._clock.now,
            )
            for name, key in self._keys.items()
        ]

    def _name_of(self, key: Any) -> str:
        name = text_of(plain(key))
        self._keys.setdefault(name, json_value(plain(key)))
        return name

    def advanced(self) -> None:
        """Note how far the watermark is."""
        windows = self._grouping.windows
        if windows.watermark > self._last:
            self._last = windows.watermark
            time = None if windows.watermark >= MAX_MICROS else windows.watermark
            self._watermark.append(WatermarkAdvance(self._clock.now, time))

    def _arrived(self, bundle: Bundle) -> None:
        for (key, value), micros, _, _, sign in bundle.rows():
            is_late = micros < self._grouping.windows.watermark
            element = Element(json_value(value), micros, self._clock.now, is_late, sign)
            self._elements.setdefault(self._name_of(key), []).append(element)

    def _emitted(self, bundle: Bundle) -> None:
        for (key, value), _, windows, pane, sign in bundle.rows():
            for window in windows:
                interval = (
                    Interval(window.start_micros, window.end_micros) if isinstance(window, IntervalWindow) else None
                )
                emitted = Pane(json_value(value), self._clock.now, interval, pane.timing.name, pane.index, sign)
                self._panes.setdefault(self._name_of(key), []).append(emitted)
