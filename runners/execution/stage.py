"""A fused stage at work: bundles in, bundles out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.dofn import BundleContextParam, BundleFinalizer, DoFn
from ...sdk.element_wrappers import TaggedOutput, WindowedValue
from ...sdk.errors import PipelineError
from ...transforms.splittable_par_do import WorkToTheEnd
from . import fusion
from .garbage import rarely_collected
from .output_memory import OutputMemory
from .side_input_views import SideInputViews
from .stage_chain import Chain
from .stage_operations import Operation, ParDoOperation, operation_of
from .user_code import guarded, shortened
from .windows.bounded_operator import Cells
from .windows.combining import Fold

Emit = Callable[[graph.Tag, Bundle], None]


class StageExecutor:
    """One worker's copy of a stage.

    Args:
      stage: what it is to do.
      emit: called with the tag and the elements of each bundle that comes out.
      views: the side inputs' contents.
      fold: what it ends in, if a grouping follows; cells: what that goes to.
      folded: called when a bundle has been folded.
      over: true when loops are to be left (`TimeSlice.over`); None for loops that run to their end.

    Attributes:
      left: the elements that `process` has not come to, in their order: each bundle with the place of the operation
        that is next for it.  The caller takes them.
    """

    def __init__(
        self,
        stage: fusion.Stage,
        emit: Emit,
        views: SideInputViews | None = None,
        cells: Cells | None = None,
        fold: Fold | None = None,
        folded: Callable[[], None] | None = None,
        over: Any = None,
    ) -> None:
        self.stage = stage
        self.over = over
        self.left: list[tuple[int, Bundle]] = []
        self._folded = folded
        self.cells = cells
        self.emit = emit
        self._views = views or SideInputViews()
        self._operations = tuple(operation_of(t) for t in stage.operations)
        self.fold = fold
        outputs = stage.operations[-1].outputs if stage.operations else {None: -1}
        self._tags = tuple(outputs)
        self._chains: dict[int, Chain] = {}
        self._chain = self.chain(0)
        self._finalizer = BundleFinalizer()
        self._contexts: dict[str, Any] = {}
        self._memories: dict[int, OutputMemory] = {}
        self._is_set_up = False
        self._starts = _overriding(self._operations, "start_bundle")
        self._finishes = _overriding(self._operations, "finish_bundle")

    # Lifecycle

    def setup(self) -> None:
        """Set up the DoFns; done by the first bundle if nobody does before."""
        self._is_set_up = True
        for operation in self._pardos():
            if self.over is not None and isinstance(operation.fn, WorkToTheEnd) and not operation.remembers:
                operation.fn.over = self.over
        for _, operation in _overriding(self._operations, "setup"):
            guarded(operation.label, operation.fn.setup)
        self._enter("setup")

    def teardown(self) -> None:
        """Tear down the DoFns that were set up."""
        if not self._is_set_up:
            return
        self._is_set_up = False
        self._leave("setup")
        for _, operation in _overriding(self._operations, "teardown"):
            guarded(operation.label, operation.fn.teardown)

    def process(self, bundle: Bundle, place: int = 0) -> None:
        """Run one bundle through, from start_bundle to finish_bundle.

        Args:
          place: that of the first operation.
        """
        if not self._is_set_up:
            self.setup()
        if self.cells is not None:
            self.cells.start_bundle()
        self._enter("bundle")
        for _, operation in self._starts:
            guarded(operation.label, operation.fn.start_bundle)
        with rarely_collected():
            (self.chain(place) if place else self._chain).run(bundle)
        for index, operation in self._finishes:
            self._finish(index, operation)
        self._leave("bundle")
        if self.cells is not None:
            assert self.fold is not None
            guarded(self.fold.label, self.cells.finish_bundle)
            if not self._operations or self.cells.pending:
                self.cells.size += len(bundle)
            if self._folded is not None:
                self._folded()
        self._finalizer.finalize()

    def _finish(self, index: int, operation: ParDoOperation) -> None:
        outputs = guarded(operation.label, lambda: list(operation.fn.finish_bundle() or ()))
        specials = []
        for output in outputs:
            inner = output.value if type(output) is TaggedOutput else output
            if type(inner) is not WindowedValue:
                raise PipelineError(
                    f"{operation.label}: finish_bundle must yield WindowedValues, since it has no element "
                    f"to take a timestamp and windows from; got {shortened(output)}"
                )
            specials.append((output, 0, (), inner.pane_info, 1))
        if specials:
            self._chain.specials(index, specials)

    def _pardos(self) -> list[ParDoOperation]:
        return [op for op in self._operations if isinstance(op, ParDoOperation)]

    def _enter(self, scope: str) -> None:
        for i, operation in enumerate(self._operations):
            if not isinstance(operation, ParDoOperation):
                continue
            for j, argument in enumerate(operation.arguments):
                marker = argument.marker
                if isinstance(marker, BundleContextParam) and marker.scope == scope:
                    context = guarded(operation.label, partial(marker.constructor, *marker.args, **marker.kwargs))
                    self._contexts[f"a{i}_{j}"] = (context, guarded(operation.label, context.__enter__))

    def _leave(self, scope: str) -> None:
        for i, operation in enumerate(self._operations):
            if not isinstance(operation, ParDoOperation):
                continue
            for j, argument in enumerate(operation.arguments):
                if isinstance(argument.marker, BundleContextParam) and argument.marker.scope == scope:
                    context, _ = self._contexts.pop(f"a{i}_{j}")
                    guarded(operation.label, partial(context.__exit__, None, None, None))

    # For the chains

    def chain(self, place: int) -> Chain:
        """Return the operations from one of them on."""
        chain = self._chains.get(place)
        if chain is None:
            chain = self._chains[place] = Chain(self, place, self._operations, self._tags)
        return chain

    def leave(self, place: int, bundle: Bundle) -> None:
        """Keep elements that the operation at this place has not come to."""
        self.left.append((place, bundle))

    @property
    def is_behind(self) -> bool:
        """Whether work that is due was left, other than elements."""
        return False

    def catch_up(self) -> None:
        """Go on with work that is due."""

    def memory(self, index: int) -> OutputMemory:
        """What an operation that isn't deterministic has emitted."""
        return self._memories.setdefault(index, OutputMemory())

    @property
    def memories(self) -> dict[int, OutputMemory]:
        """What each operation that isn't deterministic has emitted, by its place in the stage."""
        return self._memories

    def bundle_arguments(self) -> dict[str, Any]:
        """The arguments that may change from bundle to bundle, by name."""
        arguments: dict[str, Any] = {}
        for i, operation in enumerate(self._operations):
            if not isinstance(operation, ParDoOperation):
                continue
            for j, argument in enumerate(operation.arguments):
                name = f"a{i}_{j}"
                if argument.marker is DoFn.BundleFinalizerParam:
                    arguments[name] = self._finalizer
                elif isinstance(argument.marker, BundleContextParam):
                    arguments[name] = self._contexts[name][1]
                elif isinstance(argument.value, graph.SideInputArgument):
                    side_input = self.stage.operations[i].side_inputs[argument.value.index]
                    if argument.value.index in operation.windowed_views:
                        arguments[name] = self._views.by_main_window(side_input)
                    else:
                        arguments[name] = guarded(operation.label, partial(self._views.whole, side_input))
        return arguments


def _overriding(operations: tuple[Operation, ...], method: str) -> list[tuple[int, ParDoOperation]]:
    return [
        (i, op)
        for i, op in enumerate(operations)
        if isinstance(op, ParDoOperation)
        and getattr(getattr(op.fn, method), "__func__", None) is not getattr(DoFn, method)
    ]
