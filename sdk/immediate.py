"""`[1, 2, 3] | transform`: a transform tried out on values, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from . import graph
from .bundle import Bundle
from .ptransform import PTransform
from .pvalue import DoOutputsTuple, PCollection
from .side_inputs import AsSideInput
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
    """The results of a transform on a list of values, or on a tuple or dict of lists.

    Results have the structure of what the transform gives: a list for each PCollection, in the same tuple,
    named tuple, list or dict; a dict by tag for tagged outputs; None for a write.
    """
    from .pipeline import Pipeline

    pipeline = Pipeline("local")
    inputs: Any
    if isinstance(values, dict):
        inputs = {key: pipeline | f"values {key}" >> _Values(list(part)) for key, part in values.items()}
    elif isinstance(values, tuple) and values and all(isinstance(part, (list, tuple)) for part in values):
        inputs = _like(values, [pipeline | f"values {i}" >> _Values(list(part)) for i, part in enumerate(values)])
    else:
        inputs = pipeline | _Values(list(values))
    output = pipeline.apply(transform, inputs)
    collected = _collected(output, "collect")
    pipeline.run().wait_until_finish()
    return _results(collected)


def _collected(output: Any, label: str) -> Any:
    """The output with a sink in the place of each PCollection."""
    if isinstance(output, PCollection):
        sink = CollectingSink()
        output | label >> _Collect(sink)
        return sink
    if isinstance(output, DoOutputsTuple):
        output = output.by_tag()
    if isinstance(output, dict):
        return {key: _collected(part, f"{label} {key}") for key, part in output.items()}
    if isinstance(output, (tuple, list)):
        return _like(output, [_collected(part, f"{label} {i}") for i, part in enumerate(output)])
    if isinstance(output, AsSideInput):
        return _View(output, _collected(output.pvalue, label))
    return None


def _results(collected: Any) -> Any:
    if isinstance(collected, CollectingSink):
        return collected.values
    if isinstance(collected, dict):
        return {key: _results(part) for key, part in collected.items()}
    if isinstance(collected, (tuple, list)):
        return _like(collected, [_results(part) for part in collected])
    if isinstance(collected, _View):
        return collected.side_input.view.of(collected.sink.values)
    return None


def _like(structure: Any, parts: list[Any]) -> Any:
    """The parts in a tuple, a named tuple or a list of the given one's type."""
    kind = type(structure)
    return kind._make(parts) if hasattr(kind, "_make") else kind(parts)


@attrs.frozen
class _View:
    side_input: AsSideInput
    sink: CollectingSink
