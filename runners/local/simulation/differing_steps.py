"""Steps that aren't deterministic, found by comparing two plain runs of a pipeline.

A simulation compares results with those of a plain run, so a step that draws random numbers, or reads the clock, makes
it fail as an error of the runner would.

>>> import uuid
>>> import penstock as beam
>>> p = beam.Pipeline()
>>> _ = p | beam.Create(["a"]) | "Draw" >> beam.Map(lambda text: (text, uuid.uuid4())) | beam.GroupByKey()
>>> print(differing_step(p.graph()).partition(":")[0])
'Draw' gave different outputs for equal inputs in two plain runs
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs

from ....sdk.graph import Graph, ParDo, Transform
from ....sdk.sink import LabelledSink
from ...execution.user_errors import shortened
from .graph import in_batch
from .plain_run import run_plainly
from .sink import CollectingSink, Row


def differing_step(graph: Graph) -> str | None:
    """Return a sentence about the first step that gives different outputs for equal inputs, or None.

    The functions of the pipeline are called; nothing is written into its sinks.
    """
    first, second = _outputs(graph), _outputs(graph)
    for transform in graph.transforms:
        inputs = (*transform.inputs, *(side_input.pcollection for side_input in transform.side_inputs))
        if any(first[id] != second[id] for id in inputs):
            continue
        for id in transform.outputs.values():
            if first[id] != second[id]:
                return (
                    f"{transform.label!r} gave different outputs for equal inputs in two plain runs: "
                    f"{_shown(first[id] - second[id])} in one, and {_shown(second[id] - first[id])} in the other"
                )
    return None


def _outputs(graph: Graph) -> dict[int, Counter[Row]]:
    """Return the rows of every PCollection of a plain run, by the PCollection's number."""
    sinks = {id: CollectingSink() for id in graph.pcollections}
    transforms = [_without_sink(transform) for transform in graph.transforms]
    for id, sink in sinks.items():
        label = f"rows of {id}"
        transforms.append(Transform(label, ParDo(None, sink=LabelledSink(sink, label)), (id,), {}))
    run_plainly(in_batch(attrs.evolve(graph, transforms=tuple(transforms))))
    return {id: +sink.rows for id, sink in sinks.items()}


def _without_sink(transform: Transform) -> Transform:
    primitive = transform.primitive
    if not isinstance(primitive, ParDo) or primitive.sink is None:
        return transform
    return attrs.evolve(
        transform, primitive=attrs.evolve(primitive, sink=attrs.evolve(primitive.sink, sink=CollectingSink()))
    )


def _shown(rows: Counter[Row]) -> str:
    """Return the value of one of the rows, as text."""
    if not rows:
        return "nothing"
    row: Any = next(iter(rows))
    return shortened(row[0])
