"""One run of a pipeline in the calling process.

A source brings bundles, or a script of events.  Each bundle is pushed through everything that
follows before the next one is taken.  After it the watermarks are moved on, step by step in
the graph's order: a step's output watermark is the least of its inputs' and of what it holds,
and never goes back.  A stage with side inputs waits until they are ready; what comes for it
before that is kept, and holds the watermark.  When everything is done the sinks commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.errors import UnsupportedError
from ...sdk.metrics import MetricsContainer
from ...sdk.script import ClockMoves, ElementsArrive, PercentileMoves, Script, SignalArrives, WatermarkMoves
from ...triggers import DefaultTrigger
from ...windowing import BoundedWindow
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..execution.counters import Counts
from ..execution.dataflow import Dataflow
from ..execution.fusion import Grouping, Keyed, Output, Plan, Source, Stage, Union
from ..execution.output import OutputRun
from ..execution.side_input_views import SideInputViews
from ..execution.user_code import Attribution, attributed, reraise
from .clock import Clock
from .grouping import GroupingRun
from .keyed import KeyedRun


class LocalExecution:
    """A run in progress.

    Attributes:
      counts: elements, by step.
      metrics: what user code and the run itself report.
    """

    def __init__(self, plan: Plan, metrics: MetricsContainer) -> None:
        self.plan = plan
        self.counts = Counts()
        self.metrics = metrics
        self._clock = Clock()
        self._views = SideInputViews()
        self._watermarks: dict[int, int] = dict.fromkeys(plan.graph.pcollections, MIN_MICROS)
        self._reach = {id(s): _reachable(plan, s) for s in plan.steps if isinstance(s, Source)}
        transaction = uuid.uuid4().hex[:12]
        steps = plan.steps
        is_batch = plan.graph.is_bounded
        self._groupings = {
            s.transform.label: GroupingRun(s, self._clock, is_batch, metrics) for s in steps if isinstance(s, Grouping)
        }
        self._outputs = [OutputRun(s.transform, transaction, self.counts) for s in steps if isinstance(s, Output)]
        receivers = {output.label: output.receive for output in self._outputs}
        bundles = {label: run.receive for label, run in self._groupings.items() if run.windows is not None}
        self._dataflow = Dataflow(plan, steps, self._views, self._groupings, receivers, self.counts, bundles)
        for grouping in self._groupings.values():
            grouping.wire(self._dataflow)
        self._keyed = {
            id(s): KeyedRun(self._dataflow.stages[id(s)], self._clock, is_batch, metrics)
            for s in steps
            if isinstance(s, Keyed)
        }
        for run in self._dataflow.stages.values():
            if not is_batch:
                run.is_ready = self._readiness(run.executor.stage)
        for pcollection in plan.side_input_ids():
            self._dataflow.attach(pcollection, partial(self._views.add, pcollection))

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
        uncommitted = list(self._outputs)
        try:
            for output in self._outputs:
                output.prepare()
            for source in self._sources():
                for _ in self._events(source):
                    self._propagate()
            self._propagate()
            for grouping in self._groupings.values():
                grouping.teardown()
            self._dataflow.teardown()
            for output in self._outputs:
                output.stage()
            while uncommitted:
                uncommitted[0].commit()
                del uncommitted[0]
        except BaseException:
            with suppress(Exception):
                self._dataflow.teardown()
            for output in uncommitted:
                output.abort()
            raise

    # Sources

    def _sources(self) -> Iterator[Source]:
        """The sources, in an order in which little has to be kept for stages that wait; scripts last."""
        unread = [step for step in self.plan.steps if isinstance(step, Source)]
        scripts = [step for step in unread if _script(step) is not None]
        if len(scripts) > 1:
            raise UnsupportedError(
                f"{scripts[1].transform.label}: the pipeline has another TestStream, {scripts[0].transform.label}, "
                "and there is one clock; use one with several output_tags"
            )
        while unread:
            source = min(unread, key=lambda s: (_script(s) is not None, self._waiting(s)))
            unread.remove(source)
            yield source

    def _waiting(self, source: Source) -> int:
        """How many stages would have to keep what this source brings."""
        return sum(not self._has_side_inputs(s) for s in self._reach[id(source)])

    def _has_side_inputs(self, stage: Stage | Keyed) -> bool:
        return all(self._watermarks[s.pcollection] >= MAX_MICROS for s in stage.side_inputs)

    def _readiness(self, stage: Stage) -> Callable[[BoundedWindow], bool]:
        """Whether a stage's side inputs have something, or never will, for an element's window."""

        def is_ready(window: BoundedWindow) -> bool:
            for side_input in stage.side_inputs:
                windowing = side_input.windowing
                own = windowing.window_fn.side_input_window(window)
                if self._watermarks[side_input.pcollection] >= own.max_micros:
                    continue
                # By the default trigger a window's contents are there when it is complete.
                waits = isinstance(windowing.trigger, DefaultTrigger)
                if waits or not self._views.has_any(side_input.pcollection, own):
                    return False
            return True

        return is_ready

    def _events(self, step: Source) -> Iterator[None]:
        """Push what a source brings, stopping where watermarks or clocks have moved."""
        script = _script(step)
        if script is None:
            self._read(step)
            yield
            return
        outputs = step.transform.outputs
        for event in script.events:
            if isinstance(event, ElementsArrive):
                self._count(step, event.bundle)
                self._dataflow.send_to(outputs[event.tag])(event.bundle)
            elif isinstance(event, WatermarkMoves):
                self._move(outputs[event.tag], event.micros)
            elif isinstance(event, ClockMoves):
                self._clock.advance(event.micros)
            elif isinstance(event, SignalArrives):
                for grouping in self._groupings.values():
                    grouping.signal(event.name)
            else:
                assert isinstance(event, PercentileMoves)
                for grouping in self._groupings.values():
                    grouping.advance_percentile(event.percentile, event.micros)
            yield
        for output in outputs.values():
            self._move(output, MAX_MICROS)
        yield

    def _read(self, step: Source) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert not isinstance(primitive.source, Script)
        (output,) = step.transform.outputs.values()
        send = self._dataflow.send_to(output)
        source = primitive.source
        for split in self._guarded(step, lambda: source.split(1)):
            bundles = iter(self._guarded(step, partial(source.read_bundles, split)))
            while True:
                bundle = self._guarded(step, partial(next, bundles, None))
                if bundle is None:
                    break
                self._count(step, bundle)
                send(bundle)
        self._move(output, MAX_MICROS)

    def _count(self, step: Source, bundle: Bundle) -> None:
        count = self.counts.of(step.transform.label)
        count.read += len(bundle)
        count.written += len(bundle)

    def _guarded(self, step: Source, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:
            reraise(attributed(error, Attribution(step.transform.label, None)))

    # Watermarks and clocks

    def _move(self, pcollection: int, watermark: int) -> None:
        if watermark > self._watermarks[pcollection]:
            self._watermarks[pcollection] = watermark

    def _propagate(self) -> None:
        """Move every watermark on as far as it goes, and do what becomes due, in the graph's order."""
        for step in self.plan.steps:
            if isinstance(step, Stage):
                watermark = self._watermarks[step.input]
                run = self._dataflow.stages[id(step)]
                if self._has_side_inputs(step):
                    run.unblock()
                else:
                    run.look()
                kept = run.hold()
                for output in step.operations[-1].outputs.values():
                    self._move(output, watermark if kept is None else min(watermark, kept - 1))
            elif isinstance(step, Keyed):
                run = self._dataflow.stages[id(step)]
                if self._has_side_inputs(step):
                    run.unblock()
                else:
                    run.look()
                moved = self._keyed[id(step)].advance(self._watermarks[step.transform.inputs[0]])
                for output in step.transform.outputs.values():
                    self._move(output, moved)
            elif isinstance(step, Union):
                (output,) = step.transform.outputs.values()
                self._move(output, min((self._watermarks[i] for i in step.transform.inputs), default=MAX_MICROS))
            elif isinstance(step, Grouping):
                watermark = self._watermarks[step.transform.inputs[0]]
                moved = self._groupings[step.transform.label].advance(watermark)
                for output in step.transform.outputs.values():
                    self._move(output, moved)


def _script(step: Source) -> Script | None:
    primitive = step.transform.primitive
    assert isinstance(primitive, graph.Read)
    return primitive.source if isinstance(primitive.source, Script) else None


def _reachable(plan: Plan, source: Source) -> list[Stage | Keyed]:
    """Stages with side inputs that a source's elements may reach."""
    found: list[Stage | Keyed] = []
    seen: set[int] = set()
    todo = list(source.transform.outputs.values())
    while todo:
        pcollection = todo.pop()
        if pcollection in seen:
            continue
        seen.add(pcollection)
        for transform in plan.graph.consumers(pcollection):
            todo.extend(transform.outputs.values())
        found.extend(s for s in plan.consumers(pcollection) if isinstance(s, (Stage, Keyed)) and s.side_inputs)
    return found
