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
from ...sdk.bundle import Bundle
from ...sdk.sink import Sink, SinkWriter
from ..execution.cells import Cells
from ..execution.counters import Counts
from ..execution.fold import Fold
from ..execution.fusion import Grouping, Output, Plan, Source, Stage, Step, Union
from ..execution.side_input_views import SideInputViews
from ..execution.stage import StageExecutor
from ..execution.user_code import Attribution, attributed, reraise
from ..execution.window_operator import WindowOperator

Receiver = Callable[[Bundle], None]


class LocalExecution:
    """A run in progress.

    Attributes:
      counts: elements, by step.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts = Counts()
        self._views = SideInputViews()
        self._receivers: dict[int, list[Receiver]] = {i: [] for i in plan.graph.pcollections}
        self._done: set[int] = set()
        self._finished: set[int] = set()
        self._stages: dict[int, _StageRun] = {}
        self._groupings: dict[str, _GroupingRun] = {}
        self._outputs: list[_OutputRun] = []
        self._reach = {id(s): _reachable(plan, s) for s in plan.steps if isinstance(s, Source)}
        transaction = uuid.uuid4().hex[:12]
        for step in plan.steps:
            if isinstance(step, Grouping):
                self._groupings[step.transform.label] = _GroupingRun(step, self._send_main(step.transform))
        for step in plan.steps:
            self._wire(step, transaction)
        for pcollection in plan.side_input_ids():
            self._receivers[pcollection].append(lambda bundle, i=pcollection: self._views.add(i, bundle))

    def _wire(self, step: Step, transaction: str) -> None:
        if isinstance(step, Stage):
            outputs = step.outputs
            cells, fold = None, None
            if step.fold is not None:
                grouping = self._groupings[step.fold.label]
                cells, fold = grouping.operator.cells, grouping.fold
            run = _StageRun(step, self._emit(step, outputs), self._views, cells, fold, self.counts)
            self._stages[id(step)] = run
            self._receivers[step.input].append(run.receive)
        elif isinstance(step, Grouping) and not step.fused:
            self._receivers[step.transform.inputs[0]].append(self._groupings[step.transform.label].receive)
        elif isinstance(step, Union):
            for pcollection in step.transform.inputs:
                self._receivers[pcollection].append(self._send_main(step.transform))
        elif isinstance(step, Output):
            output = _OutputRun(step, transaction, self.counts)
            self._outputs.append(output)
            self._receivers[step.transform.inputs[0]].append(output.receive)

    def _send_main(self, transform: graph.Transform) -> Receiver:
        (receivers,) = [self._receivers[i] for tag, i in transform.outputs.items() if tag is None]

        def send(bundle: Bundle) -> None:
            for receive in receivers:
                receive(bundle)

        return send

    def _emit(self, stage: Stage, outputs: dict[graph.Tag, int]) -> Callable[[graph.Tag, Bundle], None]:
        receivers = {tag: self._receivers[i] for tag, i in outputs.items()}
        count = self.counts.of(stage.label)

        def emit(tag: graph.Tag, bundle: Bundle) -> None:
            count.written += len(bundle)
            for receive in receivers[tag]:
                receive(bundle)

        return emit

    def run(self) -> None:
        """Run to the end; on failure nothing that was written is left."""
        prepared: list[_OutputRun] = []
        try:
            for output in self._outputs:
                output.prepare()
                prepared.append(output)
            for source in self._sources():
                self._read(source)
                self._propagate()
            for stage in self._stages.values():
                stage.executor.teardown()
            for output in self._outputs:
                output.stage()
        except BaseException:
            for stage in self._stages.values():
                with suppress(Exception):
                    stage.executor.teardown()
            for output in prepared:
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
        receivers = self._receivers[output]
        count = self.counts.of(step.transform.label)
        for split in self._guarded(step, lambda: primitive.source.split(1)):
            bundles = iter(primitive.source.read_bundles(split))
            while True:
                bundle = self._guarded(step, lambda b=bundles: next(b, None))
                if bundle is None:
                    break
                count.read += len(bundle)
                count.written += len(bundle)
                for receive in receivers:
                    receive(bundle)
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
                self._stages[id(step)].unblock()
                if step.input not in self._done:
                    continue
                self._done.update(step.operations[-1].outputs.values())
            elif not all(i in self._done for i in step.transform.inputs):
                continue
            elif isinstance(step, Grouping):
                self._groupings[step.transform.label].finish()
                self._done.update(step.transform.outputs.values())
            else:
                self._done.update(step.transform.outputs.values())
            self._finished.add(id(step))


class _StageRun:
    """A stage, and what has come for it before its side inputs are complete."""

    def __init__(
        self,
        stage: Stage,
        emit: Callable[[graph.Tag, Bundle], None],
        views: SideInputViews,
        cells: Cells | None,
        fold: Fold | None,
        counts: Counts,
    ) -> None:
        self.executor = StageExecutor(stage, emit, views, cells, fold)
        self._count = counts.of(stage.label)
        self._kept: list[Bundle] | None = [] if stage.side_inputs else None

    def receive(self, bundle: Bundle) -> None:
        if self._kept is not None:
            self._kept.append(bundle)
            return
        self._count.read += len(bundle)
        self.executor.process(bundle)

    def unblock(self) -> None:
        kept, self._kept = self._kept, None
        for bundle in kept or ():
            self.receive(bundle)


class _GroupingRun:
    """A grouping's window operator."""

    def __init__(self, step: Grouping, send: Receiver) -> None:
        self.fold = Fold(step.transform)
        self.fold.setup()
        self.operator = WindowOperator(self.fold)
        self._send = send
        (output,) = step.transform.inputs
        stage = Stage((), output, step.transform)
        self._folding = StageExecutor(stage, _no_output, None, self.operator.cells, self.fold)

    def receive(self, bundle: Bundle) -> None:
        self._folding.process(bundle)

    def finish(self) -> None:
        for bundle in self.operator.flush():
            self._send(bundle)
        self.fold.teardown()


def _no_output(tag: graph.Tag, bundle: Bundle) -> None:
    raise AssertionError("a fold has no output")


class _OutputRun:
    """A sink, and what it has staged."""

    def __init__(self, step: Output, transaction: str, counts: Counts) -> None:
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.ParDo) and primitive.sink is not None
        self.label = step.transform.label
        self.sink: Sink[Any] = primitive.sink
        self.transaction = transaction
        self._count = counts.of(self.label)
        self._writer: SinkWriter[Any] | None = None
        self._staged: list[Any] = []

    def prepare(self) -> None:
        self._guarded(lambda: self.sink.prepare(self.transaction))

    def receive(self, bundle: Bundle) -> None:
        self._count.read += len(bundle)
        self._guarded(lambda: self._write(bundle))
        self._count.written += len(bundle)

    def _write(self, bundle: Bundle) -> None:
        if self._writer is None:
            self._writer = self.sink.open_writer(self.transaction, "0")
        self._writer.write(bundle)

    def stage(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            self._staged.append(self._guarded(writer.stage))

    def commit(self) -> None:
        self._guarded(lambda: self.sink.commit(self.transaction, self._staged))

    def abort(self) -> None:
        if self._writer is not None:
            with suppress(Exception):
                self._writer.discard()
        with suppress(Exception):
            self.sink.abort(self.transaction)

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:
            reraise(attributed(error, Attribution(self.label, None)))


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
