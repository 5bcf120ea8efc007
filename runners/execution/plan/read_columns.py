"""Columns to read: a source of columns reads those only that the operations behind it use.

Operations on columns that keep the fields of elements are followed up to the first that computes other elements of
them: `Select`, `Map` of an expression, or the keys and values of a `GroupBy`.  A PCollection with several consumers, or
with a consumer that may see whole elements, needs all columns.

A DoFn that can give columns (`DoFn.giving_columns`), such as the one that decodes the records of a topic, does so if
its pairs go to `Values` alone, and the values to an operation that understands columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from ....sdk import graph
from ....sdk.columns.expressions import Selection, Stamps, ValuesOfPairs
from ....sdk.dofn.dofn import DoFn
from ....sdk.user_code.serialization import Serialized


def with_read_columns(pipeline: graph.Graph) -> graph.Graph:
    """Return the graph with sources that read the columns that are used.

    >>> import penstock as beam, pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.parquet")
    >>> pyarrow.parquet.write_table(pyarrow.table({"a": [1], "b": [2], "c": [3]}), path)
    >>> p = beam.Pipeline()
    >>> rows = p | beam.io.ReadFromParquet(path, as_rows=True) | beam.Filter(beam.col("a") > 0)
    >>> _ = rows | beam.Select(b=beam.col("b") + 1)
    >>> with_read_columns(p.graph()).transforms[0].primitive.source.used
    ('a', 'b')
    """
    changes = [_change_of(transform) for transform in pipeline.transforms]
    if not any(changes):
        return pipeline
    side_inputs = {side.pcollection for transform in pipeline.transforms for side in transform.side_inputs}
    transforms = [
        transform if change is None else change(transform, pipeline, side_inputs)
        for transform, change in zip(pipeline.transforms, changes, strict=True)
    ]
    return attrs.evolve(pipeline, transforms=tuple(transforms))


_Change: TypeAlias = Callable[[graph.Transform, graph.Graph, set[int]], graph.Transform]


def _change_of(transform: graph.Transform) -> _Change | None:
    """Return the function that changes a transform to one of the columns that are used; None if it has no columns."""
    primitive = transform.primitive
    if isinstance(primitive, graph.Read):
        return _reading if hasattr(primitive.source, "using") else None
    if isinstance(primitive, graph.ParDo) and primitive.fn is not None:
        return _giving if type(primitive.fn.object[0]).giving_columns is not DoFn.giving_columns else None
    return None


def _reading(transform: graph.Transform, pipeline: graph.Graph, side_inputs: set[int]) -> graph.Transform:
    """Return a Read of the columns that are used."""
    used = _used(transform, pipeline, side_inputs)
    if used is None:
        return transform
    source: Any = transform.primitive.source  # type: ignore[union-attr]
    return attrs.evolve(transform, primitive=graph.Read(source.using(tuple(sorted(used)))))


def _giving(transform: graph.Transform, pipeline: graph.Graph, side_inputs: set[int]) -> graph.Transform:
    """Return a ParDo that gives the columns that are used of the values of its pairs, if that is of use."""
    primitive, output = transform.primitive, transform.outputs.get(None)
    assert isinstance(primitive, graph.ParDo)
    assert primitive.fn is not None
    consumers = () if output is None or output in side_inputs else pipeline.consumers(output)
    if len(consumers) != 1 or not isinstance(consumers[0].column_operation, ValuesOfPairs):
        return transform
    (values,) = consumers[0].outputs.values()
    used = _used(consumers[0], pipeline, side_inputs)
    if values in side_inputs or (used is None and not _is_taken_as_columns(values, pipeline)):
        return transform
    fn, args, kwargs = primitive.fn.load()
    giving = fn.giving_columns(None if used is None else tuple(sorted(used)))
    if giving is None:
        return transform
    call: tuple[DoFn, tuple[Any, ...], Mapping[str, Any]] = (giving, args, kwargs)
    return attrs.evolve(transform, primitive=attrs.evolve(primitive, fn=Serialized(call, primitive.fn.label)))


def _is_taken_as_columns(pcollection: int, pipeline: graph.Graph) -> bool:
    """Return True if an operation on columns, or a sink of columns, takes the elements, maybe after their windows."""
    for consumer in pipeline.consumers(pcollection):
        primitive = consumer.primitive
        takes = consumer.understands_columns
        if isinstance(primitive, graph.AssignWindows):
            (output,) = consumer.outputs.values()
            takes = takes and _is_taken_as_columns(output, pipeline)
        elif isinstance(primitive, graph.ParDo) and primitive.sink is not None:
            takes = primitive.sink.sink.spec.takes_columns
        if takes:
            return True
    return False


def _used(read: graph.Transform, pipeline: graph.Graph, side_inputs: set[int]) -> set[str] | None:
    """Return the fields that are used of a source's elements; None if all may be."""
    used: set[str] = set()
    transform = read
    while True:
        (output,) = transform.outputs.values()
        consumers = pipeline.consumers(output)
        if len(consumers) != 1 or output in side_inputs or not consumers[0].understands_columns:
            return None
        transform = consumers[0]
        operation = transform.column_operation
        if getattr(operation, "makes_elements", False):
            return used.union(*(column.fields for column in operation.columns))
        if isinstance(operation, (Selection, Stamps)):
            used = used.union(*(column.fields for column in operation.columns))
        elif operation is not None:
            return None
