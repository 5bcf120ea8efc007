"""Write: elements into a sink; and Stage: without the transforms of a sink that is composed of some."""

from __future__ import annotations

from typing import Any

from ..sdk import graph
from ..sdk.adapters import as_sink, is_sink
from ..sdk.errors import UnsupportedError
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection, PDone
from ..sdk.sink import ComposedSink, LabelledSink, Sink, check_interface
from ..sdk.user_code.serialization import dumps


class Stage(PTransform):
    """Elements into a sink as it is.

    Args:
      sink_label: the full label that the sink is told, of a composite; None for the transform's own.
      many_transactions: as in `SinkContext`, on every runner.

    Raises `UnsupportedError` if the input may be retracted and the sink only appends.
    """

    def __init__(self, sink: Sink[Any], sink_label: str | None = None, many_transactions: bool = False) -> None:
        super().__init__()
        self.sink = sink
        self._sink_label = sink_label
        self._many_transactions = many_transactions

    def default_label(self) -> str:
        # Checkpoints have the labels of sinks.
        return f"Write({type(self.sink).__name__})"

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        full_label = pcoll.pipeline.full_label
        check_interface(self.sink, full_label)
        spec = self.sink.spec
        if pcoll.retracted_by and not spec.accepts_retractions:
            advice = spec.retractions_advice or (
                "write to a sink that accepts retractions, such as WriteToSQLite or WriteToChangelog"
            )
            raise UnsupportedError(
                f"{full_label}: {type(self.sink).__name__} only appends, but {pcoll.retracted_by} may retract its "
                f"input; {advice}, or use AccumulationMode.ACCUMULATING"
            )
        dumps(self.sink, full_label)
        sink = LabelledSink(self.sink, self._sink_label or full_label, self._many_transactions)
        pcoll.pipeline.add(graph.ParDo(None, sink=sink), [pcoll], pcoll.windowing)
        return PDone(pcoll.pipeline)


class Write(PTransform):
    """Elements into a sink, which publishes them once the whole pipeline has succeeded.

    Takes a `PCollection[T]` for a sink of elements of type T.

    A transform in place of a sink is applied as it is, and an object with a converter is converted
    (`penstock.sdk.adapters.as_sink`).  `penstock.io.Sink` shows how to write a sink.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "lines"
    >>> sink = beam.io.WriteToText(path, shard_name_template="").sink
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create(["to be", "or not"]) | beam.io.Write(sink)
    >>> path.read_text()
    'to be\\nor not\\n'
    """

    # The full label that the sink is told; None for the transform's own.
    _sink_label: str | None = None

    def __init__(self, sink: Sink[Any] | ComposedSink | PTransform | Any) -> None:
        super().__init__()
        if not (isinstance(sink, (Sink, ComposedSink, PTransform)) or is_sink(sink)):
            raise TypeError(f"Write: expected a Sink, got {sink!r}")
        self.sink = sink

    def default_label(self) -> str:
        return f"Write({type(self.sink).__name__})"

    def expand(self, pcoll: PCollection[Any]) -> PDone | PCollection[Any]:
        sink = self.sink if (adapted := as_sink(self.sink)) is None else adapted
        if isinstance(sink, PTransform):
            return pcoll | sink  # type: ignore[no-any-return]
        if isinstance(sink, ComposedSink):
            return sink.write(pcoll, self._sink_label or pcoll.pipeline.full_label)  # type: ignore[no-any-return]
        return Stage(sink, self._sink_label).expand(pcoll)


class WriteAs(Write):
    """Elements into a sink, as a part of a composite.

    Args:
      sink_label: the full label of the composite, which the sink is told.
    """

    def __init__(self, sink: Sink[Any] | ComposedSink, sink_label: str) -> None:
        super().__init__(sink)
        self._sink_label = sink_label
