"""A run of a scripted pipeline, or of a bounded one with loops, in the calling process.

The steps are those of a stream, in one task.  Everything that an event of the script makes due is done before the next
event.  At the end the sinks commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.errors import UnsupportedError
from ...sdk.metrics import MetricsContainer
from ...sdk.sources.bounded import BoundedSource
from ...sdk.sources.scripted_source import (
    ClockMoves,
    ElementsArrive,
    PercentileMoves,
    Script,
    SignalArrives,
    WatermarkMoves,
)
from ...windowing.timestamp import MAX_MICROS
from ..execution.clock import Clock
from ..execution.counters import Counts
from ..execution.plan.execution_graph import whole
from ..execution.plan.fusion import Keyed, Plan, Source, Stage
from ..execution.streaming.task_execution import TaskExecution
from ..execution.user_errors import guarded
from .bounded_run import committed_at_end, staged_by


class ScriptedRun:
    """A run in progress.

    Attributes:
      counts: elements, by step.
    """

    def __init__(self, plan: Plan, metrics: MetricsContainer) -> None:
        self.plan = plan
        self.counts = Counts()
        self._clock = Clock()
        # Elements of bounded sources since watermarks were moved on, which takes a look at every step.
        self._read_since = 0
        has_side_inputs = bool(plan.side_input_ids())
        self._reach = {
            s.id: _reachable(plan, s) if has_side_inputs else [] for s in plan.steps if isinstance(s, Source)
        }
        (task,) = whole(plan).tasks
        self._transaction = uuid.uuid4().hex[:12]
        self._task = TaskExecution(plan, task, self._clock, metrics, self.counts, self._transaction, tracking=False)

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
        task = self._task
        with committed_at_end(self.plan, self._transaction, lambda: staged_by(task.outputs), self._discard):
            for source in self._sources():
                for _ in self._events(source):
                    if _script(source) is not None or self._read_since >= len(self.plan.steps):
                        self._propagate()
            self._propagate()
            task.teardown()

    def _discard(self) -> None:
        for output in self._task.outputs:
            output.discard()
        self._task.dataflow.teardown()

    def _propagate(self) -> None:
        self._read_since = 0
        self._task.propagate()

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
        queue = [(_script(s) is not None, self._waiting(s), i, s) for i, s in enumerate(unread)]
        heapify(queue)
        while queue:
            is_script, waiting, i, source = heappop(queue)
            # Stages wait for less and less: only where they wait still the others may be better by now.
            if waiting and self._waiting(source):
                self._propagate()
                heappush(queue, (is_script, self._waiting(source), i, source))
                queue = [(is_script, self._waiting(s), i, s) for is_script, _, i, s in queue]
                heapify(queue)
                source = heappop(queue)[-1]
            yield source

    def _waiting(self, source: Source) -> int:
        """How many stages would have to keep what this source brings."""
        return sum(not self._task.has_side_inputs(s) for s in self._reach[source.id])

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
                self._task.dataflow.send_to(outputs[event.tag])(event.bundle)
            elif isinstance(event, WatermarkMoves):
                self._task.move(outputs[event.tag], event.micros)
            elif isinstance(event, ClockMoves):
                self._clock.advance(event.micros)
            elif isinstance(event, SignalArrives):
                self._task.signal(event.name)
            else:
                assert isinstance(event, PercentileMoves)
                self._task.advance_percentile(event.percentile, event.micros)
            yield
        for output in outputs.values():
            self._task.move(output, MAX_MICROS)
        yield

    def _read(self, step: Source) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, BoundedSource)
        (output,) = step.transform.outputs.values()
        send = self._task.dataflow.send_to(output)
        source = primitive.source
        for split in self._guarded(step, lambda: source.split(1)):
            bundles = iter(self._guarded(step, partial(source.read_bundles, split)))
            while True:
                bundle = self._guarded(step, partial(next, bundles, None))
                if bundle is None:
                    break
                self._count(step, bundle)
                send(bundle)
        self._task.move(output, MAX_MICROS)

    def _count(self, step: Source, bundle: Bundle) -> None:
        count = self.counts.of(step.transform.label)
        count.read += len(bundle)
        count.written += len(bundle)
        self._read_since += len(bundle)

    def _guarded(self, step: Source, read: Callable[[], Any]) -> Any:
        return guarded(step.transform.label, read)


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
