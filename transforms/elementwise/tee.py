"""Tee: a branch of a chain of transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection, PDone
from ...sdk.user_code.signatures import label_of

if TYPE_CHECKING:
    from ...sdk.static_results import Keeps

    T = TypeVar("T")


class Tee(PTransform):
    """Its input, to which each of the consumers is applied as well.

    Returns a `PCollection[T]`, as its input is.

    A consumer is a transform, or a function of a PCollection.

    >>> import penstock as beam
    >>> doubled = [1, 2] | beam.Tee(beam.Map(lambda x: print("saw", x))) | beam.Map(lambda x: 2 * x)
    saw 1
    saw 2
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    def __init__(self, *consumers: PTransform | Callable[[PCollection[Any]], Any]) -> None:
        super().__init__()
        for consumer in consumers:
            if not isinstance(consumer, PTransform) and (not callable(consumer) or isinstance(consumer, type)):
                raise TypeError(f"Tee: expected a transform, or a function of a PCollection, got {consumer!r}")
        self.consumers = consumers

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        for consumer in self.consumers:
            _ = pcoll | (consumer if isinstance(consumer, PTransform) else _Consumer(consumer))
        return pcoll


class _Consumer(PTransform):
    """A function whose result is ignored."""

    def __init__(self, fn: Callable[[PCollection[Any]], Any]) -> None:
        super().__init__()
        self.fn = fn

    def default_label(self) -> str:
        return label_of(self.fn)

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        self.fn(pcoll)
        return PDone(pcoll.pipeline)
