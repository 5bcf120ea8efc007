"""Flatten: several PCollections as one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar, Union, overload

from ..sdk import graph
from ..sdk.errors import InputError, PipelineError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import DoOutputsTuple, PBegin, PCollection, PValue
from ..sdk.windowing_strategy import DEFAULT_WINDOWING

if TYPE_CHECKING:
    from ..sdk.static_results import Keeps

    T = TypeVar("T")


class Flatten(PTransform):
    """Several PCollections, with the same windowing, as one.

    Returns a `PCollection[T]` for inputs of elements of type T.

    An input can also be a list of elements: `(pcoll, [1, 2]) | Flatten()`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     odd, even = p | "odd" >> beam.Create([1]), p | "even" >> beam.Create([2])
    ...     _ = (odd, even) | beam.Flatten() | beam.Map(print)
    1
    2
    """

    takes_listed_inputs = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        # For an empty tuple of inputs, which has no pipeline.
        self.pipeline = kwargs.pop("pipeline", None)
        if kwargs:
            raise TypeError(f"Flatten: unexpected arguments {sorted(kwargs)}")

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __ror__(self, left: Iterable[PCollection[T]]) -> PCollection[T]: ...
        @overload
        def __ror__(self, left: Iterable[Iterable[T]]) -> list[T]: ...  # type: ignore[overload-overlap]
        @overload
        def __ror__(self, left: Iterable[PCollection[T] | Iterable[T]]) -> PCollection[T]: ...
        # For mypy a list of PCollections and lists is a `list[object]`.
        @overload
        def __ror__(self, left: list[Any]) -> PCollection[Any]: ...
        def __ror__(self, left: Any) -> Any: ...

    def expand(self, pcolls: Iterable[PCollection[T]]) -> PCollection[T]:
        if isinstance(pcolls, PBegin):
            return pcolls.pipeline.add(graph.Flatten(), [], DEFAULT_WINDOWING, is_bounded=True)[None]
        if isinstance(pcolls, PValue):
            raise InputError(f"{self.label}: expected a tuple of PCollections, got one; did you forget a comma?")
        inputs = list(pcolls)
        pipelines = (pcoll.pipeline for pcoll in inputs if isinstance(pcoll, PCollection))
        pipeline: Any = self.pipeline or next(pipelines, None)
        label = pipeline.full_label if pipeline else self.label
        for i, pcoll in enumerate(inputs):
            if not isinstance(pcoll, PCollection):
                raise TypeError(f"{label}: expected PCollections, but input {i} is {pcoll!r}{_hint_for(pcoll)}")
        windowing = inputs[0].windowing if inputs else DEFAULT_WINDOWING
        for pcoll in inputs:
            if pcoll.windowing.window_fn != windowing.window_fn:
                raise PipelineError(
                    f"{label}: its inputs are windowed differently: {inputs[0].producer_label} by "
                    f"{windowing.window_fn!r}, {pcoll.producer_label} by {pcoll.windowing.window_fn!r}; "
                    "give them the same WindowInto first"
                )
        hint = reduce(lambda a, b: Union[a, b], [p.hint for p in inputs], inputs[0].hint)  # noqa: UP007
        if any(p.hint is Any for p in inputs):
            hint = Any
        flattened: PCollection[T] = pipeline.add(graph.Flatten(), inputs, windowing, hint)[None]
        return flattened


class FlattenWith(PTransform[PCollection[Any], Any]):
    """The input PCollection and others as one.

    Returns a `PCollection[T]`, as its inputs are.

    The others are PCollections, or transforms that start from the pipeline.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | "a" >> beam.Create([1]) | beam.FlattenWith(beam.Create([2])) | beam.Map(print)
    1
    2
    """

    if TYPE_CHECKING:
        _declares: None  # type: ignore[assignment]
        __ror__: Keeps  # type: ignore[assignment]

    def __init__(self, *others: PCollection[Any] | PTransform) -> None:
        super().__init__()
        self.others = others

    def expand(self, pcoll: PCollection[T]) -> PCollection[T]:
        pcolls = [pcoll]
        for other in self.others:
            if not isinstance(other, (PCollection, PTransform)):
                raise TypeError(f"{pcoll.pipeline.full_label}: expected PCollections and transforms, got {other!r}")
            pcolls.append(pcoll.pipeline | other if isinstance(other, PTransform) else other)
        return tuple(pcolls) | Flatten()


def _hint_for(value: Any) -> str:
    if isinstance(value, PTransform):
        return ", a transform; apply it to the pipeline first: pipeline | ..."
    if isinstance(value, (list, tuple, DoOutputsTuple)):
        return ", several PCollections; unpack them: (pcoll, *others) | Flatten()"
    return ""
