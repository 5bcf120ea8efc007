"""Run of a pipeline with a script or a loop in the calling process, without checkpoints.

It is one streaming task; everything that an event of the script makes due is done before the next event.  The sinks
commit at the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from ...sdk import graph
from ...sdk.errors import UnsupportedError
from ...sdk.metrics import MetricsContainer
from ...sdk.sources.bounded import BoundedSource
from ...sdk.sources.scripted_source import ClockMoves, PercentileMoves, SignalArrives
from ...windowing.timestamp import MAX_MICROS
from ..execution.clock import Clock
from ..execution.counters import BusyTime, Counts
from ..execution.plan.execution_graph import whole
from ..execution.plan.fusion import Keyed, Plan, Source, Stage
from ..execution.streaming.task_execution import TaskExecution
from ..execution.user_errors import guarded, guarded_items
from .batch.run import committed_at_end, staged_by
from .subtask.script_reader import ScriptReader, script_of

# Observes a run: see `ScriptedRun`.
Observe: TypeAlias = Callable[[TaskExecution, Clock], Callable[[], None]]


class ScriptedRun:
    """Run of a plan with a script or a loop, as one streaming task.

    Args:
      observe: called with the task and the clock before the first element; returns a function that is called after
        everything that an event has made due is done.

    Attributes:
      counts: elements, by step.
    """

    def __init__(self, plan: Plan, metrics: MetricsContainer, observe: Observe | None = None) -> None:
        self.plan = plan
        self.counts = Counts()
        self._metrics = metrics
        self._clock = Clock()
        # Elements of bounded sources since watermarks were propagated, which costs as much as some elements.
        self._read_since = 0
        has_side_inputs = bool(plan.side_input_ids())
        self._reach = {
            s.id: _reachable(plan, s) if has_side_inputs else [] for s in plan.steps if isinstance(s, Source)
        }
        (task,) = whole(plan).tasks
        self._transaction = uuid.uuid4().hex[:12]
        self._task = TaskExecution(plan, task, self._clock, metrics, self.counts, self._transaction, tracking=False)
        self._observed = None if observe is None else observe(self._task, self._clock)

    def run(self) -> None:
        """Run to the end.  After a failure nothing that was written is left."""
        task = self._task
        busy = BusyTime(self.counts, task.task.label)
        with committed_at_end(
            self.plan, self._transaction, lambda: staged_by(task.outputs), self._metrics, self._discard
        ):
            for source in self._sources():
                if script_of(source) is not None:
                    self._play(ScriptReader(source, 0))
                else:
                    self._read(source)
                    if self._read_since >= len(self.plan.steps):
                        self._propagate()
            self._propagate()
            task.teardown()
        busy.add()

    def _discard(self) -> None:
        for output in self._task.outputs:
            output.discard()
        self._task.dataflow.teardown()

    def _propagate(self) -> None:
        self._read_since = 0
        self._task.propagate()
        if self._observed is not None:
            self._observed()

    # Sources

    def _sources(self) -> Iterator[Source]:
        """Yield the sources, in an order that buffers little in stages that wait for side inputs; scripts last."""
        unread = [step for step in self.plan.steps if isinstance(step, Source)]
        scripts = [step for step in unread if script_of(step) is not None]
        if len(scripts) > 1:
            raise UnsupportedError(
                f"{scripts[1].transform.label}: the pipeline has another TestStream, {scripts[0].transform.label}, "
                "and there is one clock; use one with several output_tags"
            )
        queue = [(script_of(s) is not None, self._waiting(s), i, s) for i, s in enumerate(unread)]
        heapify(queue)
        while queue:
            is_script, waiting, i, source = heappop(queue)
            # Fewer and fewer stages wait, so another source may come first by now.
            if waiting and self._waiting(source):
                self._propagate()
                heappush(queue, (is_script, self._waiting(source), i, source))
                queue = [(is_script, self._waiting(s), i, s) for is_script, _, i, s in queue]
                heapify(queue)
                source = heappop(queue)[-1]
            yield source

    def _waiting(self, source: Source) -> int:
        """Return how many stages would have to buffer the elements of this source."""
        return sum(not self._task.has_side_inputs(s) for s in self._reach[source.id])

    def _play(self, script: ScriptReader) -> None:
        """Play a script to its end."""
        while not script.is_finished:
            event = script.play(self._task, self.counts)
            if isinstance(event, ClockMoves):
                self._clock.advance(event.micros)
            elif isinstance(event, SignalArrives):
                self._task.signal(event.name)
            elif isinstance(event, PercentileMoves):
                self._task.advance_percentile(event.percentile, event.micros)
            self._propagate()

    def _read(self, step: Source) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, BoundedSource)
        (output,) = step.transform.outputs.values()
        send = self._task.dataflow.send_to(output)
        source = primitive.source
        label = step.transform.label
        count = self.counts.of(label)
        for split in guarded(label, lambda: source.split(1)):
            for bundle in guarded_items(label, partial(source.read_bundles, split)):
                count.read += len(bundle)
                count.written += len(bundle)
                self._read_since += len(bundle)
                send(bundle)
        self._task.move(output, MAX_MICROS)


def _reachable(plan: Plan, source: Source) -> list[Stage | Keyed]:
    """Return the stages with side inputs that elements of a source may reach."""
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
