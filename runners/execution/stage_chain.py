"""A chain: the operations of a stage from one of them on, compiled for each shape of bundle, and run."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from ...sdk import graph
from ...sdk.bundle import BUNDLE_SIZE, Bundle
from ...sdk.dofn import DoFn
from ...sdk.element_wrappers import SPECIAL_TYPES, Retracted, TaggedOutput, unwrapped
from ...sdk.errors import InvalidKeyError, NotAPairError, PipelineError
from ...sdk.metrics import STEPS_OF_LINES
from ...sdk.remainder import Remainder
from ...windowing import TimestampedValue
from .coded_keys import ENCODE
from .stage_names import NAMES, names_of, names_of_fold
from .stage_operations import Operation, ParDoOperation
from .stage_source import Generated, Shape, generate
from .user_code import Attribution, attributed, reraise, shortened
from .windows.keys import not_a_pair, unhashable

if TYPE_CHECKING:
    from .stage import StageExecutor

# What a function asks for that the loop has at hand for each element.
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
        self._compiled: dict[Shape, tuple[Callable[..., int | None], Generated]] = {}
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
            left = run(bundle.values, bundle.timestamps, windows, bundle.panes, bundle.signs)
        except BaseException as error:
            reraise(self._attributed(error, run, generated))
        if left:
            n = len(bundle)
            self._executor.leave(self._first, bundle.part(n - left, n))

    def _compile(self, shape: Shape) -> tuple[Callable[..., int | None], Generated]:
        executor, fold = self._executor, self._executor.fold
        operation = None if fold is None else fold.operation
        over = executor.over
        generated = generate(
            self._operations, operation, shape, BUNDLE_SIZE, self._first, self._timestamped, over is not None
        )
        labels = [*(op.label for op in self._operations), "" if fold is None else fold.label]
        names: dict[str, Any] = {
            **NAMES,
            "B": self._bundle_arguments,
            "cells": executor.cells,
            "emit": self._emitted,
            "over": over,
            "specials": self.specials,
            STEPS_OF_LINES: [labels[index] for index, _ in generated.lines],
        }
        if fold is not None:
            names.update(names_of_fold(fold))
        for i, op in enumerate(self._operations):
            names.update(names_of(i, op))
            if isinstance(op, ParDoOperation) and op.remembers:
                names[f"memory{i}"] = executor.memory(i)
        exec(_compiled(generated.source), names)
        run = names["run"]
        run.__code__ = run.__code__.replace(co_filename=f"<penstock stage {executor.stage.label}>")
        return run, generated

    def _emitted(self, values: list[Any], timestamps: Any, windows: Any, panes: Any, signs: Any) -> None:
        self._executor.emit(None, Bundle(values, timestamps, windows, panes, signs))

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
            if type(element) is Remainder:
                self._executor.leave(index, Bundle([element], micros, windows, pane, sign))
                continue
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
            if tag is not None or (is_last and self._executor.fold is None):
                self._executor.emit(tag, bundle)
            else:
                self._executor.chain(index + 1).run(bundle)

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

    def _attributed(self, error: BaseException, run: Callable[..., int | None], generated: Generated) -> BaseException:
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code is not run.__code__:
            tb = tb.tb_next
        if tb is None:
            return error
        index, variable = generated.lines[tb.tb_lineno - 1]
        if index < 0:
            return error
        operations = self._executor.stage.operations
        fold = self._executor.fold
        label = operations[index].label if index < len(operations) else fold.label if fold else ""
        frame = tb.tb_frame.f_locals
        element = frame.get(variable)
        if index == len(operations) and tb.tb_next is None:
            if isinstance(error, ValueError) and "unpack" in str(error):
                error = not_a_pair(element)
            elif isinstance(error, TypeError) and "unhashable" in str(error):
                error = unhashable(frame.get("k"))
        if isinstance(error, (NotAPairError, InvalidKeyError)):
            # A step that was put before one that groups speaks for that.
            return attributed(error, Attribution(label.removesuffix(f"/{ENCODE}"), None))
        return attributed(error, Attribution(label, shortened(element)))


# Long pipelines have many stages of one form.
@lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    return compile(source, "<penstock stage>", "exec")


def _shared(column: list[Any]) -> Any:
    """The entry that all of a column's are, if they are one; else the column."""
    first = column[0]
    return first if column.count(first) == len(column) else column
