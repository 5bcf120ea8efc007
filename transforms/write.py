"""Write: elements into a sink; and Stage: without the transforms of a sink that is composed of some."""

from __future__ import annotations

from typing import Any

from ..sdk import graph
from ..sdk.errors import UnsupportedError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection, PDone
from ..sdk.sink import ComposedSink, Sink
from ..sdk.user_code.serialization import dumps


class Stage(PTransform):
    """Elements into a sink as it is.

    Raises `UnsupportedError` if the input may be retracted and the sink only appends.
    """

    def __init__(self, sink: Sink[Any]) -> None:
        super().__init__()
        self.sink = sink

    def default_label(self) -> str:
        # Checkpoints have the labels of sinks.
        return f"Write({type(self.sink).__name__})"

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        if pcoll.retracted_by and not self.sink.accepts_retractions:
            advice = self.sink.retractions_advice or (
                "write to a sink that accepts retractions, such as WriteToSQLite or WriteToChangelog"
            )
            raise UnsupportedError(
                f"{pcoll.pipeline.full_label}: {type(self.sink).__name__} only appends, but {pcoll.retracted_by} may "
                f"retract its input; {advice}, or use AccumulationMode.ACCUMULATING"
            )
        sink = self.sink if self.sink.is_labelled else self.sink.labelled(pcoll.pipeline.full_label)
        dumps(sink, pcoll.pipeline.full_label)
        pcoll.pipeline.add(graph.ParDo(None, sink=sink), [pcoll], pcoll.windowing)
        return PDone(pcoll.pipeline)


class Write(PTransform):
    """Elements into a sink, which publishes them once the whole pipeline has succeeded.

    A transform in place of a sink is applied as it is.  `penstock.io.Sink` shows how to write a sink.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "lines"
    >>> sink = beam.io.WriteToText(path, shard_name_template="").sink
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create(["to be", "or not"]) | beam.io.Write(sink)
    >>> path.read_text()
    'to be\\nor not\\n'
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
        return Stage(self.sink).expand(pcoll)
