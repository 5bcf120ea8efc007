"""Execution of a fused stage, bundle by bundle.

A chain has the operations of a stage from one of them on, compiled for each shape of bundle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ....sdk import graph
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.columns.column_elements import as_rows, light_rows
from ....sdk.dofn.dofn import BundleContextParam, BundleFinalizer, DoFn, FilterDoFn, FlatMapDoFn, MapDoFn
from ....sdk.dofn.signature import Argument, user_function
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, Shape, narrowed
from ....sdk.elements.defensive_copy import defensive_copy
from ....sdk.elements.element_wrappers import (
    SPECIAL_TYPES,
    BatchOutput,
    Remainder,
    Retracted,
    TaggedOutput,
    WindowedValue,
    unwrapped,
)
from ....sdk.errors import InvalidKeyError, NotAPairError, PipelineError
from ....sdk.user_code.signatures import fields_read
from ....sdk.user_code.step_slot import NO_STEP, StepTimes, here
from ....transforms.par_do.splittable_par_do import WorkToTheEnd
from ....windowing import TimestampedValue
from ....windowing.buckets import bucketing
from ..kernels.descriptions import Operation, ParDoOperation, operation_of
from ..kernels.stages import StageDescription, StageKernel, labels_of, stage_kernel
from ..plan import fusion
from ..plan.coded_keys import ENCODE
from ..user_errors import (
    Attribution,
    attributed,
    guarded,
    has_hash,
    not_a_pair,
    reraise,
    shortened,
    start_bundle,
    unhashable,
)
from .batches import bundles_of
from .columns import ColumnOperations
from .recorded_outputs import OutputMemory
from .side_input_views import SideInputViews

if TYPE_CHECKING:
    from ..windows.cell_table import CellTable
    from ..windows.combining import Fold

Emit = Callable[[graph.Tag, Bundle], None]
Passed = Callable[[int, int, Any], None]


class StageExecutor:
    """One worker's copy of a stage.

    Args:
      stage: the stage.
      emit: called with the tag and the elements of each output bundle.
      views: the side inputs' contents.
      fold: the fold that it ends in, if a grouping follows.
      cells: the cells that are folded into.

    Attributes:
      remainders: unfinished restrictions, each with the place of their operation.  The caller takes them.
      passed: called with the place of an operation, the number of elements that it processes, and one of them or their
        bundle; None while nothing counts these.
      memories: the recorded outputs of each non-deterministic operation, by its place in the stage.
    """

    def __init__(
        self,
        stage: fusion.Stage,
        emit: Emit,
        views: SideInputViews | None = None,
        cells: CellTable | None = None,
        fold: Fold | None = None,
    ) -> None:
        self.stage = stage
        self.remainders: list[tuple[int, Bundle]] = []
        self.passed: Passed | None = None
        self.cells = cells
        self.emit = emit
        self._views = views or SideInputViews()
        self._operations = tuple(operation_of(t) for t in stage.operations)
        self._column_operations = ColumnOperations(self._operations, self._batch_arguments)
        self.fold = fold
        outputs = stage.operations[-1].outputs if stage.operations else {None: -1}
        self._tags = tuple(outputs)
        self._chains: dict[int, Chain] = {}
        self._chain = self.chain(0)
        self._finalizer = BundleFinalizer()
        self._contexts: dict[tuple[int, int], Any] = {}
        self._markers = {scope: self._markers_of(scope) for scope in ("setup", "bundle")}
        self.memories: dict[int, OutputMemory] = {}
        self._is_set_up = False
        self._starts = _overriding(self._operations, "start_bundle")
        self._finishes = _overriding(self._operations, "finish_bundle")

    # Lifecycle

    def setup(self) -> None:
        """Set up the DoFns; the first bundle does it if the caller hasn't."""
        self._is_set_up = True
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
        """Process a bundle, from start_bundle to finish_bundle.

        Args:
          place: the place of the first operation.
        """
        if not self._is_set_up:
            self.setup()
        if self.cells is not None:
            self.cells.start_bundle()
        self._enter("bundle")
        for _, operation in self._starts:
            start_bundle(operation.label, operation.fn)
        columns = self._column_operations
        if not place and (columns.needed or (columns.length and isinstance(bundle, ColumnBundle))):
            for reached, tag, output in columns.apply(bundle, self.passed):
                if isinstance(output, Bundle):
                    self._run(reached, tag, output)
                elif output:
                    self._chain.specials(reached - 1, output)
        else:
            self._run(place, None, bundle)
        for index, operation in self._finishes:
            self._finish(index, operation)
        self._leave("bundle")
        if self.cells is not None:
            assert self.fold is not None
            guarded(self.fold.label, self.cells.finish_bundle)
        if self._finalizer.callbacks:
            self._finalizer.finalize()

    def _run(self, place: int, tag: graph.Tag, bundle: Bundle) -> None:
        """Process elements from an operation on; those behind the last operation are outputs."""
        if not len(bundle):
            return
        if tag is not None:
            if self._chain.has_output(place - 1, tag):
                self.emit(tag, bundle)
        elif place != len(self._operations) or not self._took_columns(bundle):
            if self.fold is not None and self.cells is not None:
                # So that elements are folded in their order.
                guarded(self.fold.label, self.cells.flush_columns)
            # Columns may be more than a bundle of elements.
            for portion in bundle.portions() if isinstance(bundle, ColumnBundle) else (bundle,):
                self.chain(place).run(portion)

    def _took_columns(self, bundle: Bundle) -> bool:
        """Send elements that are still columns behind all operations, or fold them; return False if they are others."""
        if self.fold is None:
            self.emit(None, bundle)
            return True
        assert self.cells is not None
        add = partial(self.cells.add_columns, bundle, self.fold)
        return guarded(self.fold.label, add)

    def _finish(self, index: int, operation: ParDoOperation) -> None:
        outputs = guarded(operation.label, lambda: list(map(defensive_copy, operation.fn.finish_bundle() or ())))
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
        for place, operation, marker in self._markers[scope]:
            context = guarded(operation.label, partial(marker.constructor, *marker.args, **marker.kwargs))
            self._contexts[place, id(marker)] = (context, guarded(operation.label, context.__enter__))

    def _leave(self, scope: str) -> None:
        for place, operation, marker in self._markers[scope]:
            context, _ = self._contexts.pop((place, id(marker)))
            guarded(operation.label, partial(context.__exit__, None, None, None))

    def _markers_of(self, scope: str) -> list[tuple[int, ParDoOperation, BundleContextParam]]:
        return [
            (i, operation, marker)
            for i, operation in enumerate(self._operations)
            if isinstance(operation, ParDoOperation)
            for marker in dict.fromkeys(a.marker for a in (*operation.arguments, *operation.batch_arguments))
            if isinstance(marker, BundleContextParam) and marker.scope == scope
        ]

    # Called by the chains

    def chain(self, place: int) -> Chain:
        """Return the operations from one of them on."""
        chain = self._chains.get(place)
        if chain is None:
            chain = self._chains[place] = Chain(self, place, self._operations, self._tags)
        return chain

    @property
    def is_due(self) -> bool:
        """Return True if timers are due."""
        return False

    def fire_due(self, most: int = sys.maxsize) -> int:
        """Fire due timers, at most so many; return their number."""
        return 0

    @property
    def splittable(self) -> list[WorkToTheEnd]:
        """Return the splittable DoFns that may leave a `Remainder`."""
        return [op.fn for op in self._pardos() if isinstance(op.fn, WorkToTheEnd) and not op.remembers]

    def memory(self, index: int) -> OutputMemory:
        """Return the recorded outputs of a non-deterministic operation."""
        memory = self.memories.get(index)
        if memory is None:
            primitive = self.stage.operations[index].primitive
            assert isinstance(primitive, graph.ParDo)
            limit = primitive.retractable_for
            memory = self.memories[index] = OutputMemory(None if limit is None else limit.micros)
        return memory

    def expire(self, watermark: int) -> None:
        """Forget recorded outputs of elements that can't be retracted any more at this watermark, in microseconds."""
        for memory in self.memories.values():
            memory.expire(watermark)

    def bundle_arguments(self) -> dict[str, Any]:
        """Return the arguments that may change from bundle to bundle, by name."""
        return {
            f"a{i}_{j}": value
            for i, operation in enumerate(self._operations)
            if isinstance(operation, ParDoOperation)
            for j, value in self._arguments_of(i, operation, operation.arguments).items()
        }

    def _batch_arguments(self, i: int) -> Mapping[int, Any]:
        """Return the arguments of an operation's function of a batch that may change from bundle to bundle."""
        operation = self._operations[i]
        assert isinstance(operation, ParDoOperation)
        return self._arguments_of(i, operation, operation.batch_arguments)

    def _arguments_of(self, i: int, operation: ParDoOperation, arguments: Sequence[Argument]) -> dict[int, Any]:
        values: dict[int, Any] = {}
        for j, argument in enumerate(arguments):
            if argument.marker is DoFn.BundleFinalizerParam:
                values[j] = self._finalizer
            elif isinstance(argument.marker, BundleContextParam):
                values[j] = self._contexts[i, id(argument.marker)][1]
            elif isinstance(argument.value, graph.SideInputArgument):
                side_input = self.stage.operations[i].side_inputs[argument.value.index]
                if argument.value.index in operation.windowed_views:
                    values[j] = self._views.by_main_window(side_input)
                else:
                    values[j] = guarded(operation.label, partial(self._views.whole, side_input))
        return values


def _overriding(operations: tuple[Operation, ...], method: str) -> list[tuple[int, ParDoOperation]]:
    return [
        (i, op)
        for i, op in enumerate(operations)
        if isinstance(op, ParDoOperation)
        and getattr(getattr(op.fn, method), "__func__", None) is not getattr(DoFn, method)
    ]


def _fields_read(operations: Sequence[Operation]) -> tuple[str, ...] | None:
    """Return the fields that operations read of an element, up to the first that outputs what its function makes.

    Returns None if one of them may do something else with the element.
    """
    fields: list[str] = []
    for operation in operations:
        if not isinstance(operation, ParDoOperation):
            # Other windows may depend on the element.
            if bucketing(operation.window_fn) is None:
                return None
            continue
        fn, arguments = user_function(operation.fn), operation.arguments
        is_element = [argument.marker is DoFn.ElementParam for argument in arguments]
        is_first = sum(is_element) == 1 and is_element[0] and arguments[0].keyword is None
        if type(operation.fn) not in _OF_FUNCTIONS or not is_first or operation.remembers:
            return None
        read = fields_read(fn.__code__) if isinstance(fn, FunctionType) else None
        if read is None:
            return None
        fields += read
        if type(operation.fn) is not FilterDoFn:
            return tuple(dict.fromkeys(fields))
    return None


_OF_FUNCTIONS = (MapDoFn, FlatMapDoFn, FilterDoFn)

# Parameters whose values the loop has for each element.
_ELEMENT_WISE = {
    DoFn.ElementParam,
    DoFn.TimestampParam,
    DoFn.WindowParam,
    DoFn.WindowedValueParam,
    DoFn.PaneInfoParam,
    DoFn.KeyParam,
    DoFn.SignParam,
}


class Chain:
    """The operations of a stage from one of them on, compiled for each shape of bundle.

    A stage has a chain from its first operation.  Outputs with a timestamp or windows of their own go through a chain
    from the next operation.
    """

    def __init__(
        self, executor: StageExecutor, first: int, operations: tuple[Operation, ...], tags: tuple[graph.Tag, ...]
    ) -> None:
        self._executor = executor
        self._first = first
        self._operations = operations
        self._tags = tags
        # By shape, whether they count, and whether they are timed.
        self._kernels: dict[tuple[Shape, bool, bool], StageKernel] = {}
        self._times = StepTimes(labels_of(operations, None if executor.fold is None else executor.fold.operation))
        # Operations whose outputs are mostly TimestampedValues.
        self._timestamped: set[int] = set()
        self._bundle_size = 0
        self._has_bundle_arguments = any(
            isinstance(op, ParDoOperation)
            and any(
                isinstance(a.value, graph.SideInputArgument) or (a.marker is not None and a.marker not in _ELEMENT_WISE)
                for a in op.arguments
            )
            for op in operations
        )
        self._bundle_arguments: dict[str, Any] = {}
        self._fields = _fields_read(operations)

    def run(self, bundle: Bundle) -> None:
        """Process a bundle."""
        passed = self._executor.passed
        described = bundle.shape, passed is not None, passed is None and self._times.are_due(len(bundle))
        kernel = self._kernels.get(described)
        if kernel is None:
            kernel = self._kernels[described] = self._kernel(*described)
        if self._has_bundle_arguments:
            self._bundle_arguments.update(self._executor.bundle_arguments())
        self._bundle_size = len(bundle)
        slot = here.slot
        before = slot.enter(kernel)
        began = slot.since
        try:
            kernel.run(self._values(bundle), bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)
        except BaseException as error:
            reraise(self._attributed(error, kernel))
        finally:
            slot.enter(before)
        self._times.took(slot.since - began, self._bundle_size)
        if passed is not None:
            passed(self._first, len(bundle), bundle)

    def _values(self, bundle: Bundle) -> list[Any]:
        """Return the elements; of columns with those fields alone that the operations read, if they do nothing else."""
        fields = self._fields
        if fields is not None and isinstance(bundle, ColumnBundle) and bundle.elements is as_rows:
            # What looks at the elements is shown whole ones.
            batch = None if self._executor.passed is not None else bundle.records
            light = None if batch is None else light_rows(batch, fields)
            if light is not None:
                return light
        return bundle.values

    def _kernel(self, shape: Shape, counts: bool, is_timed: bool) -> StageKernel:
        executor, fold = self._executor, self._executor.fold
        description = StageDescription(
            executor.stage.label,
            self._operations,
            None if fold is None else fold.operation,
            shape,
            BUNDLE_SIZE,
            self._first,
            frozenset(self._timestamped),
            counts,
            is_timed,
        )
        memories = {
            f"memory{i}": executor.memory(i)
            for i, operation in enumerate(self._operations)
            if isinstance(operation, ParDoOperation) and operation.remembers
        }
        names = {
            "B": self._bundle_arguments,
            "cells": executor.cells,
            "emit": self._emitted,
            "passed": self._passed,
            "specials": self.specials,
        }
        return stage_kernel(description, self._times, names | memories)

    def _emitted(self, values: list[Any], timestamps: Any, windows: Any, panes: Any, signs: Any) -> None:
        # What the receivers do belongs to none of these steps.
        step = self._times.mark(NO_STEP)
        self._executor.emit(None, Bundle(values, timestamps, windows, panes, signs))
        self._times.mark(step)

    def _passed(self, place: int, elements: int, last: Any) -> None:
        if elements and self._executor.passed is not None:
            self._executor.passed(place, elements, last)

    def specials(self, index: int, elements: list[tuple[Any, int, Any, Any, int]]) -> None:
        """Process the outputs of operation `index` that have timestamps, windows or tags of their own."""
        # Outside the loop an element costs three times as much (docs/decisions, timestamped values).
        if 2 * len(elements) > self._bundle_size and all(type(e[0]) is TimestampedValue for e in elements):
            self._timestamped.add(index)
            self._kernels.clear()
        by_tag: dict[graph.Tag, tuple[list[Any], ...]] = {}
        batches: dict[graph.Tag, list[Any]] = {}
        is_last = index == len(self._operations) - 1
        for element, micros, windows, pane, sign in elements:
            if type(element) is Remainder:
                self._executor.remainders.append((index, Bundle([element], micros, windows, pane, sign)))
                continue
            tag = None
            if type(element) is TaggedOutput:
                tag, element = element.tag, element.value
            if type(element) is Retracted:
                self._check_retracts(index, element)
                element, sign = element.value, -sign
            if type(element) in SPECIAL_TYPES:
                element, micros, windows, pane = unwrapped(element, micros, windows, pane)
            if type(element) is BatchOutput:
                batches.setdefault(tag, []).append((element, micros, windows, pane, sign))
                continue
            columns = by_tag.get(tag)
            if columns is None:
                if not self.has_output(index, tag):
                    continue
                columns = by_tag[tag] = ([], [], [], [], [])
            columns[0].append(element)
            columns[1].append(micros)
            columns[2].append(windows)
            columns[3].append(pane)
            columns[4].append(sign)
        elements.clear()
        outputs = [(tag, Bundle(values, *map(narrowed, properties))) for tag, (values, *properties) in by_tag.items()]
        for tag, found in batches.items():
            if self.has_output(index, tag):
                outputs += [(tag, bundle) for bundle in bundles_of(found)]
        for tag, bundle in outputs:
            if tag is not None or (is_last and self._executor.fold is None):
                self._executor.emit(tag, bundle)
            else:
                self._executor.chain(index + 1).run(bundle)

    def has_output(self, index: int, tag: graph.Tag) -> bool:
        """Return True if an operation has an output with this tag, False if its elements are dropped.

        Raises `PipelineError` for an unknown tag otherwise.
        """
        tags = self._tags if index == len(self._operations) - 1 else (None,)
        if tag in tags:
            return True
        transform = self._executor.stage.operations[index]
        if isinstance(transform.primitive, graph.ParDo) and transform.primitive.any_tag:
            return False
        declared = [t for t in tags if t is not None]
        raise PipelineError(
            f"{transform.label}: got an output tagged {tag!r}, but the tags declared by with_outputs are {declared}"
        )

    def _check_retracts(self, index: int, output: Retracted) -> None:
        operation = self._operations[index]
        assert isinstance(operation, ParDoOperation)
        primitive = self._executor.stage.operations[index].primitive
        assert isinstance(primitive, graph.ParDo)
        if not ((operation.decides_signs and primitive.retracted) or operation.fn.retracts):
            raise PipelineError(
                f"{operation.label}: got the output {output!r}, but the outputs of a function have the sign of its "
                "input, unless that can be retracted and it asks for DoFn.SignParam, or it says retracts = True"
            )

    def _attributed(self, error: BaseException, kernel: StageKernel) -> BaseException:
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code is not kernel.run.__code__:
            tb = tb.tb_next
        if tb is None:
            return error
        index, variable = kernel.lines[tb.tb_lineno - 1]
        if index < 0:
            return error
        operations = self._executor.stage.operations
        fold = self._executor.fold
        label = operations[index].label if index < len(operations) else fold.label if fold else ""
        frame = tb.tb_frame.f_locals
        element = frame.get(variable)
        if index == len(operations):
            if isinstance(error, ValueError) and tb.tb_next is None and "unpack" in str(error):
                error = not_a_pair(element)
            elif isinstance(error, TypeError) and not has_hash(frame.get("k")):
                error = unhashable(frame.get("k"))
        if isinstance(error, (NotAPairError, InvalidKeyError)):
            # An encoding step reports its errors as those of the grouping behind it.
            return attributed(error, Attribution(label.removesuffix(f"/{ENCODE}"), None))
        return attributed(error, Attribution(label, shortened(element)))
