"""A fused stage at work: bundles in, bundles out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...sdk import graph
from ...sdk.bundle import BUNDLE_SIZE, Bundle
from ...sdk.dofn import BundleContextParam, BundleFinalizer, DoFn
from ...sdk.errors import InvalidKeyError, NotAPairError, PipelineError
from ...sdk.metrics import STEPS_OF_LINES, at_step
from ...sdk.process_signature import user_function
from ...sdk.retracted import Retracted
from ...sdk.tagged_output import TaggedOutput
from ...sdk.windowed_value import SPECIAL_TYPES, WindowedValue, unwrapped
from ...windowing import TimestampedValue, WindowFn, checked_windows
from ...windowing.timestamp import Timestamp, micros_of
from ...windowing.timestamp_combiner import TimestampCombiner, for_element
from . import fusion
from .cells import Cells
from .fold import MISSING, Fold
from .garbage import rarely_collected
from .key_check import not_a_pair, pair_type, unhashable
from .output_memory import OutputMemory
from .side_input_views import SideInputViews
from .stage_operations import Operation, ParDoOperation, WindowOperation, operation_of
from .stage_source import Generated, Shape, generate
from .user_code import Attribution, attributed, reraise, shortened

Emit = Callable[[graph.Tag, Bundle], None]

# How many buckets of timestamps a stage remembers the windows of.
_REMEMBERED_BUCKETS = 10_000


class StageExecutor:
    """One worker's copy of a stage.

    Args:
      stage: what it is to do.
      emit: called with the tag and the elements of each bundle that comes out.
      views: the side inputs' contents.
      cells: what the stage's fold goes to, if it ends in one.
      folded: called when a bundle has been folded.
    """

    def __init__(
        self,
        stage: fusion.Stage,
        emit: Emit,
        views: SideInputViews | None = None,
        cells: Cells | None = None,
        fold: Fold | None = None,
        folded: Callable[[], None] | None = None,
    ) -> None:
        self.stage = stage
        self._folded = folded
        self.cells = cells
        self._emit = emit
        self._views = views or SideInputViews()
        self._operations = tuple(operation_of(t) for t in stage.operations)
        self._fold = fold
        outputs = stage.operations[-1].outputs if stage.operations else {None: -1}
        self._chain = Chain(self, 0, self._operations, tuple(outputs))
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
            self._guarded(operation.label, operation.fn.setup)
        self._enter("setup")

    def teardown(self) -> None:
        """Tear down the DoFns that were set up."""
        if not self._is_set_up:
            return
        self._is_set_up = False
        self._leave("setup")
        for operation in self._pardos():
            self._guarded(operation.label, operation.fn.teardown)

    def process(self, bundle: Bundle) -> None:
        """Run one bundle through, from start_bundle to finish_bundle."""
        if not self._is_set_up:
            self.setup()
        if self.cells is not None:
            self.cells.start_bundle()
        self._enter("bundle")
        for _, operation in self._starts:
            self._guarded(operation.label, operation.fn.start_bundle)
        with rarely_collected():
            self._chain.run(bundle)
        for index, operation in self._finishes:
            self._finish(index, operation)
        self._leave("bundle")
        if self.cells is not None:
            assert self._fold is not None
            self._guarded(self._fold.label, self.cells.finish_bundle)
            if not self._operations or self.cells.pending:
                self.cells.size += len(bundle)
            if self._folded is not None:
                self._folded()
        self._finalizer.finalize()

    def _finish(self, index: int, operation: ParDoOperation) -> None:
        outputs = self._guarded(operation.label, lambda: list(operation.fn.finish_bundle() or ()))
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

    def _guarded(self, label: str, method: Callable[[], Any]) -> Any:
        try:
            with at_step(label):
                return method()
        except Exception as error:
            reraise(attributed(error, Attribution(label, None)))

    def _enter(self, scope: str) -> None:
        for i, operation in enumerate(self._operations):
            if not isinstance(operation, ParDoOperation):
                continue
            for j, argument in enumerate(operation.arguments):
                marker = argument.marker
                if isinstance(marker, BundleContextParam) and marker.scope == scope:
                    context = self._guarded(operation.label, partial(marker.constructor, *marker.args, **marker.kwargs))
                    self._contexts[f"a{i}_{j}"] = (context, self._guarded(operation.label, context.__enter__))

    def _leave(self, scope: str) -> None:
        for i, operation in enumerate(self._operations):
            if not isinstance(operation, ParDoOperation):
                continue
            for j, argument in enumerate(operation.arguments):
                if isinstance(argument.marker, BundleContextParam) and argument.marker.scope == scope:
                    context, _ = self._contexts.pop(f"a{i}_{j}")
                    self._guarded(operation.label, partial(context.__exit__, None, None, None))

    # For the chains

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
                        arguments[name] = self._guarded(operation.label, partial(self._views.whole, side_input))
        return arguments


class Chain:
    """The operations of a stage from one of them on, compiled for each shape of bundle.

    A stage has one from its first operation; the elements that come out of an operation
    with a timestamp or windows of their own go through one from the next operation.
    """

    def __init__(
        self, executor: StageExecutor, first: int, operations: tuple[Operation, ...], tags: tuple[graph.Tag, ...]
    ) -> None:
        self._executor = executor
        self._first = first
        self._operations = operations
        self._tags = tags
        self._rest: dict[int, Chain] = {}
        self._compiled: dict[Shape, tuple[Callable[..., None], Generated]] = {}
        # Operations of which most outputs are TimestampedValues.
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

    def run(self, bundle: Bundle) -> None:
        """Run a bundle through."""
        windows = bundle.windows
        shape = Shape(
            type(bundle.timestamps) is list,
            type(windows) is list,
            type(bundle.panes) is list,
            type(bundle.signs) is list,
            type(windows) is tuple and len(windows) == 1,
        )
        compiled = self._compiled.get(shape)
        if compiled is None:
            compiled = self._compiled[shape] = self._compile(shape)
        if self._has_bundle_arguments:
            self._bundle_arguments.update(self._executor.bundle_arguments())
        run, generated = compiled
        self._bundle_size = len(bundle)
        try:
            run(bundle.values, bundle.timestamps, windows, bundle.panes, bundle.signs)
        except Exception as error:
            reraise(self._attributed(error, run, generated))

    def _compile(self, shape: Shape) -> tuple[Callable[..., None], Generated]:
        executor, fold = self._executor, self._executor._fold
        operation = None if fold is None else fold.operation
        generated = generate(self._operations, operation, shape, BUNDLE_SIZE, self._first, self._timestamped)
        names: dict[str, Any] = {
            "B": self._bundle_arguments,
            "MISSING": MISSING,
            "SPECIAL": SPECIAL_TYPES,
            "TIMESTAMPED": TimestampedValue,
            "cells": executor.cells,
            "emit": self._emitted,
            "iterable_type": _iterable_type,
            "micros_of": micros_of,
            "of_micros": Timestamp.of_micros,
            "out_of_range": _out_of_range,
            "pair_type": pair_type,
            "specials": self.specials,
            "windowed_value": _windowed_value,
        }
        labels = [*(op.label for op in self._operations), "" if fold is None else fold.label]
        names[STEPS_OF_LINES] = [labels[index] for index, _ in generated.lines]
        if fold is not None:
            names.update(fold.names)
            names["transformed"] = _transformed(fold.operation.window_fn)
        for i, op in enumerate(self._operations):
            if isinstance(op, WindowOperation):
                names.update(_window_names(i, op.window_fn))
            else:
                names[f"f{i}"] = user_function(op.fn)
                if op.remembers:
                    names[f"memory{i}"] = self._executor.memory(i)
                names.update({f"a{i}_{j}": a.value for j, a in enumerate(op.arguments)})
        code = compile(generated.source, f"<penstock stage {executor.stage.label}>", "exec")
        exec(code, names)
        return names["run"], generated

    def _emitted(self, values: list[Any], timestamps: Any, windows: Any, panes: Any, signs: Any) -> None:
        self._executor._emit(None, Bundle(values, timestamps, windows, panes, signs))

    def specials(self, index: int, elements: list[tuple[Any, int, Any, Any, int]]) -> None:
        """Go on after operation `index` with outputs that have columns of their own."""
        # Apart from the others an element costs three times as much (docs/decisions, timestamped values).
        if 2 * len(elements) > self._bundle_size and all(type(e[0]) is TimestampedValue for e in elements):
            self._timestamped.add(index)
            self._compiled.clear()
        by_tag: dict[graph.Tag, tuple[list[Any], ...]] = {}
        is_last = index == len(self._operations) - 1
        tags = self._tags if is_last else (None,)
        for element, micros, windows, pane, sign in elements:
            tag = None
            if type(element) is TaggedOutput:
                tag, element = element.tag, element.value
            if type(element) is Retracted:
                self._check_retracts(index, element)
                element, sign = element.value, -sign
            if type(element) in SPECIAL_TYPES:
                element, micros, windows, pane = unwrapped(element, micros, windows, pane)
            columns = by_tag.get(tag)
            if columns is None:
                if tag not in tags:
                    if self._drops_unknown_tags(index):
                        continue
                    raise self._unknown_tag(index, tag, tags)
                columns = by_tag[tag] = ([], [], [], [], [])
            columns[0].append(element)
            columns[1].append(micros)
            columns[2].append(windows)
            columns[3].append(pane)
            columns[4].append(sign)
        elements.clear()
        for tag, (values, timestamps, all_windows, panes, signs) in by_tag.items():
            bundle = Bundle(values, *map(_shared, (timestamps, all_windows, panes, signs)))
            if tag is not None or (is_last and self._executor._fold is None):
                self._executor._emit(tag, bundle)
            else:
                rest = self._rest.get(index)
                if rest is None:
                    rest = self._rest[index] = Chain(self._executor, index + 1, self._operations, self._tags)
                rest.run(bundle)

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

    def _drops_unknown_tags(self, index: int) -> bool:
        primitive = self._executor.stage.operations[index].primitive
        return isinstance(primitive, graph.ParDo) and primitive.any_tag

    def _unknown_tag(self, index: int, tag: graph.Tag, tags: tuple[graph.Tag, ...]) -> PipelineError:
        label = self._executor.stage.operations[index].label
        declared = [t for t in tags if t is not None]
        return PipelineError(
            f"{label}: got an output tagged {tag!r}, but the tags declared by with_outputs are {declared}"
        )

    def _attributed(self, error: Exception, run: Callable[..., None], generated: Generated) -> Exception:
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code is not run.__code__:
            tb = tb.tb_next
        if tb is None:
            return error
        index, variable = generated.lines[tb.tb_lineno - 1]
        if index < 0:
            return error
        operations = self._executor.stage.operations
        fold = self._executor._fold
        label = operations[index].label if index < len(operations) else fold.label if fold else ""
        frame = tb.tb_frame.f_locals
        element = frame.get(variable)
        if index == len(operations) and tb.tb_next is None:
            if isinstance(error, ValueError) and "unpack" in str(error):
                error = not_a_pair(element)
            elif isinstance(error, TypeError) and "unhashable" in str(error):
                error = unhashable(frame.get("k"))
        if isinstance(error, (NotAPairError, InvalidKeyError)):
            return attributed(error, Attribution(label, None))
        return attributed(error, Attribution(label, shortened(element)))


_ELEMENT_WISE = {
    DoFn.ElementParam,
    DoFn.TimestampParam,
    DoFn.WindowParam,
    DoFn.WindowedValueParam,
    DoFn.PaneInfoParam,
    DoFn.KeyParam,
    DoFn.SignParam,
}


def _overriding(operations: tuple[Operation, ...], method: str) -> list[tuple[int, ParDoOperation]]:
    return [
        (i, op)
        for i, op in enumerate(operations)
        if isinstance(op, ParDoOperation) and getattr(type(op.fn), method) is not getattr(DoFn, method)
    ]


def _window_names(i: int, window_fn: WindowFn) -> Mapping[str, Any]:
    if not window_fn.depends_only_on_timestamp:

        def assign(value: Any, micros: int, windows: Any) -> Any:
            context = WindowFn.AssignContext(Timestamp.of_micros(micros), value, windows[0] if windows else None)
            return checked_windows(window_fn, window_fn.assign_windows(context))

        return {f"assign{i}": assign}
    cache: dict[Any, Any] = {}

    def remember(bucket: Any, micros: int) -> Any:
        if len(cache) >= _REMEMBERED_BUCKETS:
            cache.clear()
        windows = cache[bucket] = window_fn.assign_micros(micros)
        return windows

    return {f"assign{i}": window_fn.assign_micros, f"cache{i}": cache, f"remember{i}": remember}


def _transformed(window_fn: WindowFn) -> Callable[[Any, int], int | None]:
    def transformed(window: Any, micros: int) -> int | None:
        return for_element(TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED, window, micros, window_fn)

    return transformed


def _windowed_value(value: Any, micros: int, windows: Any, pane: Any) -> WindowedValue:
    return WindowedValue(value, Timestamp.of_micros(micros), windows, pane)


def _shared(column: list[Any]) -> Any:
    """The entry that all of a column's are, if they are one; else the column."""
    first = column[0]
    return first if column.count(first) == len(column) else column


def _iterable_type(result: Any) -> type:
    if isinstance(result, (str, bytes, dict)):
        raise TypeError(
            f"the function must return an iterable of outputs, got the {type(result).__name__} {shortened(result)}; "
            "return a list of it, or use Map"
        )
    if result is not None and not hasattr(result, "__iter__") and not hasattr(result, "__getitem__"):
        raise TypeError(
            f"the function must return an iterable of outputs or None, got {shortened(result)}; did you mean Map?"
        )
    return type(result)


def _out_of_range(seconds: Any) -> None:
    Timestamp.of(seconds)
    raise ValueError(f"the timestamp {seconds!r} is out of range")
