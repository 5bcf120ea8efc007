"""One run of a pipeline in the calling process.

Sources are read one bundle at a time, and each bundle is pushed through everything that
follows before the next one is read.  A stage with side inputs waits until they are complete;
what comes for it before that is kept.  When everything is done the sinks commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ...sdk import graph
from ..execution.cells import Cells
from ..execution.counters import Counts
from ..execution.dataflow import Dataflow, Receiver
from ..execution.fold import Fold
from ..execution.fusion import Grouping, Output, Plan, Source, Stage
from ..execution.output import OutputRun
from ..execution.side_input_views import SideInputViews
from ..execution.user_code import Attribution, attributed, reraise
from ..execution.window_operator import WindowOperator


class LocalExecution:
    """A run in progress.

    Attributes:
      counts: elements, by step.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts = Counts()
        self._views = SideInputViews()
        self._done: set[int] = set()
        self._finished: set[int] = set()
        self._reach = {id(s): _reachable(plan, s) for s in plan.steps if isinstance(s, Source)}
        transaction = uuid.uuid4().hex[:12]
        steps = plan.steps
        self._groupings = {s.transform.label: _GroupingRun(s) for s in steps if isinstance(s, Grouping)}
        self._outputs = [OutputRun(s.transform, transaction, self.counts) for s in steps if isinstance(s, Output)]
        receivers = {output.label: output.receive for output in self._outputs}
        self._dataflow = Dataflow(plan, steps, self._views, self._groupings, receivers, self.counts)
        for pcollection in plan.side_input_ids():
            self._dataflow.attach(pcollection, lambda bundle, i=pcollection: self._views.add(i, bundle))

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
        try:
            for output in self._outputs:
                output.prepare()
            for source in self._sources():
                self._read(source)
                self._propagate()
            self._dataflow.teardown()
            for output in self._outputs:
                output.stage()
        except BaseException:
            with suppress(Exception):
                self._dataflow.teardown()
            for output in self._outputs:
                output.abort()
            raise
        for output in self._outputs:
            output.commit()

    def _sources(self) -> Iterator[Source]:
        """The sources, in an order in which little has to be kept for stages that wait."""
        unread = [step for step in self.plan.steps if isinstance(step, Source)]
        if not unread:
            self._propagate()
        while unread:
            source = min(unread, key=lambda s: len(self._waiting(s)))
            unread.remove(source)
            yield source

    def _waiting(self, source: Source) -> list[Stage]:
        """Stages that would have to keep what this source brings."""
        return [s for s in self._reach[id(source)] if not self._has_side_inputs(s)]

    def _has_side_inputs(self, stage: Stage) -> bool:
        return all(s.pcollection in self._done for s in stage.side_inputs)

    def _read(self, step: Source) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        (output,) = step.transform.outputs.values()
        send = self._dataflow.send_to(output)
        count = self.counts.of(step.transform.label)
        for split in self._guarded(step, lambda: primitive.source.split(1)):
            bundles = iter(primitive.source.read_bundles(split))
            while True:
                bundle = self._guarded(step, lambda b=bundles: next(b, None))
                if bundle is None:
                    break
                count.read += len(bundle)
                count.written += len(bundle)
                send(bundle)
        self._done.add(output)

    def _guarded(self, step: Source, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:
            reraise(attributed(error, Attribution(step.transform.label, None)))

    def _propagate(self) -> None:
        """Finish whatever has all of its inputs, in the graph's order."""
        for step in self.plan.steps:
            if id(step) in self._finished or isinstance(step, Source):
                continue
            if isinstance(step, Stage):
                if not self._has_side_inputs(step):
                    continue
                self._dataflow.stages[id(step)].unblock()
                if step.input not in self._done:
                    continue
                self._done.update(step.operations[-1].outputs.values())
            elif not all(i in self._done for i in step.transform.inputs):
                continue
            elif isinstance(step, Grouping):
                (output,) = step.transform.outputs.values()
                self._groupings[step.transform.label].finish(self._dataflow.send_to(output))
                self._done.add(output)
            else:
                self._done.update(step.transform.outputs.values())
            self._finished.add(id(step))


class _GroupingRun:
    """A grouping's window operator."""

    def __init__(self, step: Grouping) -> None:
        self.fold = Fold(step.transform)
        self.fold.setup()
        self.operator = WindowOperator(self.fold)

    @property
    def cells(self) -> Cells:
        return self.operator.cells

    def folded(self) -> None:
        """Nothing is due before the watermark moves."""

    def finish(self, send: Receiver) -> None:
        for bundle in self.operator.flush():
            send(bundle)
        self.fold.teardown()


def _reachable(plan: Plan, source: Source) -> list[Stage]:
    """Stages that a source's elements may reach."""
    found: list[Stage] = []
    seen: set[int] = set()
    todo = list(source.transform.outputs.values())
    while todo:
        pcollection = todo.pop()
        if pcollection in seen:
            continue
        seen.add(pcollection)
        for transform in plan.graph.consumers(pcollection):
            todo.extend(transform.outputs.values())
        found.extend(s for s in plan.consumers(pcollection) if isinstance(s, Stage) and s.side_inputs)
    return found
