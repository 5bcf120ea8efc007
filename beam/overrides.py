"""PTransformOverride: replacements of a pipeline's transforms, which `Pipeline.replace_all` makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ..sdk.applied import AppliedPTransform
from ..sdk.pipeline import Pipeline
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PValue
from .applied_transforms import root_of


class PTransformOverride(ABC):
    """Base class of overrides, by which `Pipeline.replace_all` replaces transforms of a pipeline.

    >>> import penstock as beam
    >>> class Tripled(PTransformOverride):
    ...     def matches(self, applied_ptransform):
    ...         return applied_ptransform.full_label == "Times"
    ...     def get_replacement_transform_for_applied_ptransform(self, applied_ptransform):
    ...         return beam.Map(lambda x: 3 * x)
    >>> p = beam.Pipeline()
    >>> _ = p | beam.Create([1]) | "Times" >> beam.Map(lambda x: 2 * x) | beam.Map(print)
    >>> p.replace_all([Tripled()])
    >>> p.run().wait_until_finish()
    3
    'DONE'
    """

    @abstractmethod
    def matches(self, applied_ptransform: AppliedPTransform) -> bool:
        """Return whether a transform is to be replaced."""

    def get_replacement_transform_for_applied_ptransform(self, applied_ptransform: AppliedPTransform) -> PTransform:
        """Return the transform in its place, with outputs of the same tags."""
        return self.get_replacement_transform(applied_ptransform.transform)

    def get_replacement_transform(self, ptransform: PTransform | None) -> PTransform:
        """Return the transform in its place; an older form of the method above."""
        raise NotImplementedError(f"{type(self).__name__}.get_replacement_transform_for_applied_ptransform")

    def get_replacement_inputs(self, applied_ptransform: AppliedPTransform) -> Iterable[PValue]:
        """Return the inputs of the replacement: by default, the PCollections of its side inputs behind its inputs."""
        return (*applied_ptransform.inputs, *(side_input.pvalue for side_input in applied_ptransform.side_inputs))


def replace_all(self: Pipeline, replacements: Iterable[PTransformOverride]) -> None:
    """Replace the transforms that an override matches, the outermost first; see `PTransformOverride`.

    Raises `PipelineError` if a replacement lacks an output that another transform consumes.
    """
    for override in replacements:
        todo = list(root_of(self).parts)
        while todo:
            node = todo.pop()
            if override.matches(node):
                inputs = tuple(override.get_replacement_inputs(node))
                self.replace(node, override.get_replacement_transform_for_applied_ptransform(node), inputs)
            else:
                todo += node.parts
