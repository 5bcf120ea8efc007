"""Annotations and resource hints of the transforms that a pipeline has applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from ..sdk.applied import AppliedPTransform, PipelineVisitor
from ..sdk.pipeline import Pipeline
from ..sdk.ptransform import PTransform, unnamed
from .sdk.resources import merge_resource_hints, parse_resource_hints

# The annotations of the scopes in which transforms were applied.
_of_scopes: WeakKeyDictionary[AppliedPTransform, dict[str, Any]] = WeakKeyDictionary()


class _Root(PipelineVisitor):
    """Finds the outermost transform."""

    found: AppliedPTransform | None = None

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        self.found = self.found or transform_node


def root_of(pipeline: Pipeline) -> AppliedPTransform:
    """Return the outermost transform that is being expanded: the pipeline itself, outside of `expand`."""
    root = _Root()
    pipeline.visit(root)
    assert root.found is not None
    return root.found


def _below(node: AppliedPTransform) -> Iterator[AppliedPTransform]:
    for part in node.parts:
        yield part
        yield from _below(part)


@contextmanager
def transform_annotations(self: Pipeline, **annotations: Any) -> Iterator[None]:
    """Annotate the transforms that are applied within the block, for visitors.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> with p.transform_annotations(owner="team"):
    ...     _ = p | beam.Create([1])
    """
    before = set(_below(root_of(self)))
    try:
        yield
    finally:
        for node in _below(root_of(self)):
            if node not in before:
                # A block within this one has been left before.
                _of_scopes[node] = {**annotations, **_of_scopes.get(node, {})}


def annotations_of_transform(self: PTransform) -> dict[str, Any]:
    """Return notes on the transform by name, which have no effect: its class, and what a subclass adds."""
    own: Any = unnamed(self)[0]
    if own is not self:
        annotations: dict[str, Any] = own.annotations()
        return annotations
    kind = type(self)
    return {"python_type": f"{kind.__module__}.{kind.__qualname__}"}


def annotations_of_applied(self: AppliedPTransform) -> dict[str, bytes]:
    """The annotations of its transform, and of the scope in which it was applied."""
    transform: Any = self.transform
    own = {} if transform is None else transform.annotations()
    scope = _of_scopes.get(self, {})
    return {k: v.encode() if isinstance(v, str) else v for k, v in {**scope, **own}.items()}


def with_resource_hints(self: PTransform, **hints: Any) -> PTransform:
    """Declare Beam's resource hints, which have no effect on penstock's runners: `min_ram="4GB"`.

    Raises `ValueError` for an unknown hint and an invalid value.
    """
    get_resource_hints(self).update(parse_resource_hints(hints))
    return self


def get_resource_hints(self: PTransform) -> dict[str, bytes]:
    """Return the declared resource hints, by URN."""
    hints: dict[str, bytes] = vars(unnamed(self)[0]).setdefault("_resource_hints", {})
    return hints


def resource_hints(self: AppliedPTransform) -> dict[str, bytes]:
    """The resource hints of its transform, merged with those of the composites around it."""
    own = {} if self.transform is None else get_resource_hints(self.transform)
    return own if self.parent is None else merge_resource_hints(resource_hints(self.parent), own)
