"""Read: the elements of a source."""

from __future__ import annotations

from typing import Any

from ..sdk import graph
from ..sdk.adapters import AdaptedSource, as_source, is_source
from ..sdk.errors import InputError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.sources.bounded import BoundedSource
from ..sdk.sources.unbounded import UnboundedSource
from ..sdk.user_code.serialization import dumps
from ..sdk.windowing_strategy import DEFAULT_WINDOWING


class Read(PTransform):
    """The elements of a bounded source, or of an unbounded one until the run is stopped.

    Returns a `PCollection[T]` for a source of elements of type T.

    A transform in place of a source is applied as it is, and an object with a converter is converted
    (`penstock.sdk.adapters.as_source`).

    >>> import penstock as beam
    >>> from penstock.sdk.sources.bounded import ValuesSource
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.Read(ValuesSource([1, 2])) | beam.Map(print)
    1
    2
    """

    def __init__(self, source: BoundedSource[Any] | UnboundedSource[Any] | PTransform | Any) -> None:
        super().__init__()
        if not (isinstance(source, (BoundedSource, UnboundedSource, PTransform)) or is_source(source)):
            raise TypeError(f"Read: expected a BoundedSource or an UnboundedSource, got {source!r}")
        self.source = source

    def default_label(self) -> str:
        return f"Read({type(self.source).__name__})"

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        given: Any = pbegin
        if isinstance(given, PCollection):
            raise InputError(
                f"{given.pipeline.full_label}: Input to a source must be a PBegin, the pipeline, but found "
                f"{given!r}, whose elements would be dropped"
            )
        source = self.source
        if isinstance(source, PTransform):
            return pbegin | source
        dumps(source, pbegin.pipeline.full_label)
        adapted = as_source(source) or AdaptedSource(source)
        hint = adapted.element_type if self._output_hint is None else self._output_hint
        is_bounded = isinstance(adapted.source, BoundedSource)
        primitive = graph.Read(adapted.source)
        return pbegin.pipeline.add(primitive, [], DEFAULT_WINDOWING, hint, is_bounded=is_bounded)[None]
