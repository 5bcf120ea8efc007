"""Write: elements into a sink."""

from __future__ import annotations

from typing import Any

from ..sdk import graph
from ..sdk.errors import UnsupportedError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection, PDone
from ..sdk.sink import ComposedSink, Sink
from ..sdk.user_code.serialization import dumps


class Write(PTransform):
    """Elements into a sink, which publishes them once the whole pipeline has succeeded.

    A transform in place of a sink is applied as it is.
    """

    def __init__(self, sink: Sink[Any] | ComposedSink | PTransform) -> None:
        super().__init__()
        if not isinstance(sink, (Sink, ComposedSink, PTransform)):
            raise TypeError(f"Write: expected a Sink, got {sink!r}")
        self.sink = sink

    def default_label(self) -> str:
        return f"Write({type(self.sink).__name__})"

    def expand(self, pcoll: PCollection[Any]) -> PDone | PCollection[Any]:
        if isinstance(self.sink, PTransform):
            return pcoll | self.sink  # type: ignore[no-any-return]
        if isinstance(self.sink, ComposedSink):
            return self.sink.write(pcoll)  # type: ignore[no-any-return]
        if pcoll.retracted_by and not self.sink.accepts_retractions:
            advice = self.sink.retractions_advice or (
                "write to a sink that accepts retractions, such as WriteToSQLite or WriteToChangelog"
            )
            raise UnsupportedError(
                f"{pcoll.pipeline.full_label}: {type(self.sink).__name__} only appends, but {pcoll.retracted_by} may "
                f"retract its input; {advice}, or use AccumulationMode.ACCUMULATING"
            )
        dumps(self.sink, pcoll.pipeline.full_label)
        pcoll.pipeline.add(graph.ParDo(None, sink=self.sink), [pcoll], pcoll.windowing)
        return PDone(pcoll.pipeline)
