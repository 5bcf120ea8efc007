"""`[1, 2, 3] | transform`: a transform tried out on values, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import graph
from .bundle import Bundle
from .ptransform import PTransform
from .pvalue import DoOutputsTuple, PCollection
from .sink import Sink, SinkWriter
from .source import ValuesSource


class CollectingSink(Sink[Any]):
    """Brings a PCollection's values to the process that runs the pipeline.

    They are in `values` once the pipeline is done.
    """

    def __init__(self) -> None:
        self.values: list[Any] = []

    def prepare(self, transaction: str) -> None:
        self.values = []

    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:
        return _CollectingWriter()

    def commit(self, transaction: str, staged: Sequence[list[Any]]) -> None:
        self.values = [value for values in staged for value in values]

    def abort(self, transaction: str) -> None:
        self.values = []


class _CollectingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self.values.extend(bundle.values)

    def stage(self) -> list[Any]:
        return self.values

    def discard(self) -> None:
        self.values = []


class _Values(PTransform):
    def __init__(self, values: list[Any]) -> None:
        super().__init__("values")
        self.values = values

    def expand(self, pbegin: Any) -> PCollection[Any]:
        from .windowing_strategy import DEFAULT_WINDOWING

        return pbegin.pipeline.add(graph.Read(ValuesSource(self.values)), [], DEFAULT_WINDOWING)[None]  # type: ignore[no-any-return]


class _Collect(PTransform):
    def __init__(self, sink: CollectingSink) -> None:
        super().__init__("Collect")
        self.sink = sink

    def expand(self, pcoll: Any) -> PCollection[Any]:
        return pcoll.pipeline.add(graph.ParDo(None, sink=self.sink), [pcoll], pcoll.windowing)[None]  # type: ignore[no-any-return]


def run_on_values(values: Any, transform: PTransform) -> Any:
    """The results of a transform on a list of values, or on a tuple or dict of lists."""
    from .pipeline import Pipeline

    pipeline = Pipeline("local")
    inputs: Any
    if isinstance(values, dict):
        inputs = {key: pipeline | f"values {key}" >> _Values(list(part)) for key, part in values.items()}
    elif isinstance(values, tuple) and values and all(isinstance(part, (list, tuple)) for part in values):
        inputs = tuple(pipeline | f"values {i}" >> _Values(list(part)) for i, part in enumerate(values))
    else:
        inputs = pipeline | _Values(list(values))
    output = pipeline.apply(transform, inputs)
    sinks: dict[Any, CollectingSink] = {}
    if isinstance(output, PCollection):
        output = {"": output}
    elif isinstance(output, DoOutputsTuple):
        output = output.by_tag()
    for tag in output if isinstance(output, dict) else range(len(output)):
        sinks[tag] = CollectingSink()
        output[tag] | f"collect {tag}" >> _Collect(sinks[tag])
    pipeline.run().wait_until_finish()
    if list(sinks) == [""]:
        return sinks[""].values
    return {tag: sink.values for tag, sink in sinks.items()}
