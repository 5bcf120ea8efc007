"""AppliedPTransform: a transform in its place in a pipeline, and visitors of these.

>>> import penstock as beam
>>> class Labels(PipelineVisitor):
...     def enter_composite_transform(self, transform_node):
...         print("in", transform_node.full_label or "the pipeline")
...     def visit_transform(self, transform_node):
...         print(transform_node.full_label, list(transform_node.inputs))
>>> p = beam.Pipeline()
>>> _ = p | beam.Create([1]) | "Double" >> beam.Map(lambda x: 2 * x)
>>> p.visit(Labels())
in the pipeline
in Create
Create/Values [PBegin]
Double [PCollection[Create/Values]]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from ..names.extensions import added_attribute
from ..ptransform import PTransform
from ..pvalue import DoOutputsTuple, PValue
from ..side_inputs import AsSideInput
from .display_settings import settings_of


@attrs.define(eq=False, repr=False)
class AppliedPTransform:
    """A transform that was applied; the pipeline itself is one without a transform.

    Attributes:
      parent: the composite around it; None for the pipeline.
      transform: the transform.
      full_label: its full label; "" for the pipeline.
      inputs: its main inputs, in order.
      outputs: its outputs, by tag; None is the tag of a single one.
      parts: the transforms that its `expand` applied, in order.
    """

    parent: AppliedPTransform | None
    transform: PTransform | None
    full_label: str
    inputs: tuple[PValue, ...] = ()
    outputs: dict[Any, PValue] = attrs.Factory(dict)
    parts: list[AppliedPTransform] = attrs.Factory(list)
    is_primitive: bool = False

    def is_composite(self) -> bool:
        """Return whether it is composed of others, or returns its inputs."""
        return not self.is_primitive

    @property
    def side_inputs(self) -> tuple[AsSideInput, ...]:
        """The side inputs among the arguments of its transform."""
        # The transform of `with_outputs` has a ParDo.
        of = getattr(self.transform, "pardo", self.transform)
        arguments = [*getattr(of, "args", ()), *getattr(of, "kwargs", {}).values()]
        return tuple(argument for argument in arguments if isinstance(argument, AsSideInput))

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Properties of extensions.
            return added_attribute(self, name)

    def __repr__(self) -> str:
        return f"AppliedPTransform({self.full_label}, {type(self.transform).__name__})"


def settings_in(node: AppliedPTransform) -> dict[str, tuple[str, ...]]:
    """Return the display data of the user's transforms below `node` as texts, by full label."""
    found: dict[str, tuple[str, ...]] = {}
    todo = [node]
    while todo:
        applied = todo.pop()
        todo += applied.parts
        texts = settings_of(applied.transform) if applied.transform is not None else ()
        if texts:
            found[applied.full_label] = texts
    return found


class PipelineVisitor:
    """Base class of visitors of a pipeline's transforms, inputs first.

    >>> import penstock as beam
    >>> class Labels(beam.PipelineVisitor):
    ...     def visit_transform(self, node):
    ...         print(node.full_label)
    >>> p = beam.Pipeline()
    >>> _ = p | "Words" >> beam.Create(["to", "be"]) | "Upper" >> beam.Map(str.upper)
    >>> p.visit(Labels())
    Words/Values
    Upper
    """

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        """Begin with a composite, or the pipeline."""

    def leave_composite_transform(self, transform_node: AppliedPTransform) -> None:
        """End a composite, or the pipeline."""

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        """Visit a transform that is not composed of others."""

    def visit_value(self, value: PValue, producer_node: AppliedPTransform) -> None:
        """Visit an output, once, with the innermost transform that has it."""


def visit(node: AppliedPTransform, visitor: PipelineVisitor) -> None:
    """Call the visitor's methods with a transform, its parts and their outputs."""
    _visit(node, visitor, set())


def _visit(node: AppliedPTransform, visitor: PipelineVisitor, visited: set[int]) -> None:
    if node.is_composite():
        visitor.enter_composite_transform(node)
        for part in node.parts:
            _visit(part, visitor, visited)
        visitor.leave_composite_transform(node)
    else:
        visitor.visit_transform(node)
    for value in node.outputs.values():
        if id(value) not in visited:
            visited.add(id(value))
            visitor.visit_value(value, node)


def values_in(result: Any) -> dict[Any, PValue]:
    """Return the PValues in an input or output, by tag: "a.0" for nested ones, None for a single one."""
    return dict(_tagged(result))


def _tagged(result: Any) -> Iterator[tuple[Any, PValue]]:
    if isinstance(result, PValue):
        yield None, result
    if isinstance(result, DoOutputsTuple):
        yield from result.by_tag().items()
    parts: Any = ()
    if isinstance(result, dict):
        parts = result.items()
    elif isinstance(result, (tuple, list)):
        parts = zip(getattr(result, "_fields", range(len(result))), result)
    for tag, part in parts:
        for inner, value in _tagged(part):
            yield tag if inner is None else f"{tag}.{inner}", value
