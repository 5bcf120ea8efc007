"""Execution of a stage of one async DoFn: two generated functions enclose its calls.

The first one binds the arguments of `process` for each element and creates its coroutine.  The second one gets the
finished calls, with the timestamps, windows, panes and signs of their elements, and unwraps and tags outputs as those
of any other DoFn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.dofn.async_dofn import with_process
from ....sdk.dofn.dofn import DoFn, DoFnParam, WrappingDoFn
from ....sdk.elements.bundle import Bundle, narrowed
from ....sdk.elements.defensive_copy import defensive_copy
from ....sdk.metrics import merge_apart
from ....sdk.user_code.serialization import Serialized
from ....transforms.error_handling import parameters_of_process
from ..plan.fusion import Stage
from ..stages.executor import Emit, StageExecutor
from ..stages.output_buffer import OutputRows
from ..stages.side_input_views import SideInputViews
from ..wakeup import Wakeup
from .running_calls import Call, RunningCalls


class _Starting(WrappingDoFn):
    """The first half of an async DoFn: creates the call of each element."""

    def __init__(self, fn: DoFn, calls: RunningCalls) -> None:
        super().__init__(fn)
        self._calls = calls

    @cached_property
    def process(self) -> Any:
        parameters = parameters_of_process(self.fn)
        index, name = next(
            (i, p.name)
            for i, p in enumerate(parameters)
            if p.default is DoFn.ElementParam or not isinstance(p.default, DoFnParam)
        )
        function = self.fn.process

        def started(*args: Any, **kwargs: Any) -> tuple[Call]:
            element = kwargs[name] if name in kwargs else args[index]
            return (Call(element, function(*args, **kwargs)),)

        return with_process(parameters, started)

    def setup(self) -> None:
        self._run(self.fn.setup)

    def teardown(self) -> None:
        self._run(self.fn.teardown)

    def _run(self, method: Callable[[], Any]) -> None:
        result = method()
        if inspect.isawaitable(result):
            self._calls.run(result)


class _Finishing(DoFn):
    """The second half of an async DoFn: outputs the result of each call, or raises its error."""

    def __init__(self, fn: DoFn) -> None:
        self.deterministic = fn.deterministic  # type: ignore[misc]
        self.retracts = fn.retracts  # type: ignore[misc]
        # The call whose element is processed, where outputs are recorded by their element.
        self.current: Call | None = None

    def process(self, call: Any) -> list[Any]:
        call = call if self.current is None else self.current
        if call.error is not None:
            raise call.error
        outputs: list[Any] = call.outputs
        return outputs


class _FinishingSigned(_Finishing):
    """As `_Finishing`, for a DoFn that decides on the signs of its outputs."""

    def process(self, call: Any, sign: int = DoFn.SignParam) -> list[Any]:
        return super().process(call)


class AsyncExecutor(StageExecutor):
    """One worker's copy of a stage of one async DoFn: the second half, with the first half in `starting`.

    Attributes:
      started: the calls that `starting` has created.
      is_retracted: whether inputs may be retractions.
    """

    def __init__(self, stage: Stage, emit: Emit, views: SideInputViews, wakeup: Wakeup) -> None:
        (transform,) = stage.operations
        primitive = transform.primitive
        assert isinstance(primitive, graph.ParDo)
        assert primitive.fn is not None
        fn, args, kwargs = primitive.fn.load()
        self.label = transform.label
        self.fn = fn
        self.calls = RunningCalls(self.label, fn.concurrency, wakeup)
        self.remembers = primitive.retracted and not fn.deterministic
        self.is_retracted = primitive.retracted
        # A retraction must not overtake its element.
        self.ordered: bool | str = True if primitive.retracted else fn.ordered
        starting = attrs.evolve(
            primitive, fn=Serialized.loaded((_Starting(fn, self.calls), args, kwargs), self.label), retracted=False
        )
        takes_sign = any(p.default is DoFn.SignParam for p in parameters_of_process(fn))
        self.finishing = (_FinishingSigned if takes_sign else _Finishing)(fn)
        finishing = attrs.evolve(primitive, fn=Serialized.loaded((self.finishing, (), {}), self.label), side_inputs=())
        self.started: list[Call] = []
        first = attrs.evolve(transform, primitive=starting, outputs={None: -1})
        self.starting = StageExecutor(Stage((first,), stage.input), self._collect, views)
        super().__init__(Stage((attrs.evolve(transform, primitive=finishing),), stage.input), emit)
        # Its side inputs are those of the first half.
        self.stage = stage

    def _collect(self, tag: graph.Tag, bundle: Bundle) -> None:
        for call, *properties in bundle.rows():
            # The call may change its element, which is called with again after a restart.
            call.row = (defensive_copy(call.element), *properties)
            self.started.append(call)

    def setup(self) -> None:
        super().setup()
        self.starting.setup()

    def start(self, bundle: Bundle) -> list[Call]:
        """Return the calls of elements, in their order; one element has several where it is in several windows."""
        if not self._is_set_up:
            self.setup()
        if self.remembers:
            for index, row in enumerate(bundle.rows()):
                if row[-1] < 0:
                    # Its recorded outputs are retracted without a call.
                    call = Call(row[0], None)
                    call.row = row
                    self.started.append(call)
                else:
                    self.starting.process(bundle.part(index, index + 1))
        else:
            self.starting.process(bundle)
        started, self.started = self.started, []
        return started

    def emit_results(self, calls: list[Call]) -> None:
        """Emit the outputs of finished calls.  Raises the error of a failed one, as that of the DoFn."""
        for call in calls:
            merge_apart(call.metrics)
        if not self.remembers:
            properties = list(zip(*(call.row[1:] for call in calls), strict=True))
            self.process(Bundle(list(calls), *(narrowed(list(column)) for column in properties)))
            return
        # In one bundle, so that no trigger sees the retraction of a row without the row that replaces it.
        emit, rows = self.emit, OutputRows(self._tags, self.emit)
        self.emit = partial(_add, rows)
        try:
            for call in calls:
                self.finishing.current = call
                element, *of_row = call.row
                self.process(Bundle([element], *of_row))
        finally:
            self.finishing.current = None
            self.emit = emit
        rows.flush()

    def teardown(self) -> None:
        try:
            self.starting.teardown()
        finally:
            super().teardown()
            self.calls.close()


def _add(rows: OutputRows, tag: graph.Tag, bundle: Bundle) -> None:
    for row in bundle.rows():
        rows.add(tag, *row)
