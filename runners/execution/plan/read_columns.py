"""Columns to read: a source of columns reads those only that the operations behind it use.

Operations on columns that keep the fields of elements are followed up to the first that computes other elements of
them: `Select`, `Map` of an expression, or the keys and values of a `GroupBy`.  A PCollection with several consumers, or
with a consumer that may see whole elements, needs all columns.
"""

from __future__ import annotations

import attrs

from ....sdk import graph
from ....sdk.columns.expressions import Selection, Stamps


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
    if not any(
        isinstance(t.primitive, graph.Read) and hasattr(t.primitive.source, "using") for t in pipeline.transforms
    ):
        return pipeline
    side_inputs = {side.pcollection for transform in pipeline.transforms for side in transform.side_inputs}
    transforms = []
    for transform in pipeline.transforms:
        primitive = transform.primitive
        if isinstance(primitive, graph.Read) and hasattr(primitive.source, "using"):
            used = _used(transform, pipeline, side_inputs)
            if used is not None:
                read = graph.Read(primitive.source.using(tuple(sorted(used))))
                transform = attrs.evolve(transform, primitive=read)
        transforms.append(transform)
    return attrs.evolve(pipeline, transforms=tuple(transforms))


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
