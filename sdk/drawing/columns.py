"""Columns in a drawing: the PCollections whose elements are columns, and the places where they are converted.

They follow from the graph alone.  At run time a bundle may still have elements instead: of a small CSV file, or of
results that Arrow can't fold.

>>> import penstock as beam, pyarrow
>>> p = beam.Pipeline()
>>> rows = p | beam.Create(pyarrow.table({"n": [1, 2]}))
>>> _ = rows | beam.Filter(beam.col("n") > 1) | "Print" >> beam.Map(print)
>>> graph = p.graph()
>>> columns = Columns(graph)
>>> [conversion(columns, transform) for transform in graph.transforms]
['', '', 'to elements']
"""

from __future__ import annotations

from .. import graph
from ..dofn.batched_dofn import BundleDoFn


class Columns:
    """The columns of a pipeline.

    Attributes:
      pcollections: those whose elements are columns.
      carried: those whose elements are parts of columns, within a Reshuffle.
      converting: labels of the transforms that make columns of elements.
      pipeline: the pipeline's graph.
    """

    def __init__(self, pipeline: graph.Graph) -> None:
        self.pcollections: set[int] = set()
        self.carried: set[int] = set()
        self.converting: set[str] = set()
        self.pipeline = pipeline
        wanting = _wanting(pipeline)
        for transform in pipeline.transforms:
            comes_in_columns = bool(transform.inputs) and self.pcollections.issuperset(transform.inputs)
            if comes_in_columns and self._carries(transform):
                self.carried.update(transform.outputs.values())
                self.pcollections.update(transform.outputs.values())
                continue
            if not comes_in_columns and transform.label in wanting:
                self.converting.add(transform.label)
            elif not (comes_in_columns and _keeps(transform, pipeline)) and not _gives(transform):
                continue
            self.pcollections.update(transform.outputs.values())

    def _carries(self, transform: graph.Transform) -> bool:
        """Return True if the outputs of a transform of columns are parts of columns."""
        if isinstance(transform.primitive, (graph.AssignWindows, graph.GroupByKeyAndWindow)):
            return self.carried.issuperset(transform.inputs)
        return isinstance(transform.column_operation, BundleDoFn) and self.carried.isdisjoint(transform.inputs)


def conversion(columns: Columns, transform: graph.Transform) -> str:
    """Return how a transform converts its main inputs: "to elements", "to columns", or "" if it doesn't."""
    if transform.label in columns.converting:
        return "to columns"
    is_made_of_columns = not columns.pcollections.isdisjoint(transform.inputs)
    is_carried = columns.carried.issuperset(transform.inputs)
    return "to elements" if is_made_of_columns and not is_carried and not _takes(transform, columns.pipeline) else ""


def _wanting(pipeline: graph.Graph) -> set[str]:
    """Return the labels of transforms that make columns of elements for themselves, or for the next ones in a stage."""
    wanting: set[str] = set()
    side_inputs = {side.pcollection for transform in pipeline.transforms for side in transform.side_inputs}
    for transform in reversed(pipeline.transforms):
        operation = transform.column_operation
        if isinstance(operation, BundleDoFn):
            continue
        if operation is not None and operation.is_needed:
            wanting.add(transform.label)
        elif transform.understands_columns:
            (output,) = transform.outputs.values()
            consumers = pipeline.consumers(output)
            if len(consumers) == 1 and output not in side_inputs and consumers[0].label in wanting:
                wanting.add(transform.label)
    return wanting


def _gives(transform: graph.Transform) -> bool:
    """Return True for a source of columns."""
    primitive = transform.primitive
    # A script has elements only.
    return isinstance(primitive, graph.Read) and bool(getattr(primitive.source, "gives_columns", False))


def _takes(transform: graph.Transform, pipeline: graph.Graph) -> bool:
    """Return True if a transform takes columns without making elements of them."""
    primitive = transform.primitive
    if isinstance(primitive, graph.GroupByKeyAndWindow):
        fn = None if primitive.combine is None else primitive.combine.object
        if fn is None:
            return not primitive.windowing.window_fn.is_merging and _is_final(transform, pipeline)
        return fn.arrow_fold is not None and not primitive.windowing.window_fn.is_merging
    if isinstance(primitive, graph.ParDo) and primitive.sink is not None:
        return primitive.sink.sink.spec.takes_columns
    is_operation = transform.understands_columns or transform.column_operation is not None
    return is_operation or isinstance(primitive, graph.Flatten)


def _keeps(transform: graph.Transform, pipeline: graph.Graph) -> bool:
    """Return True if the output of a transform is columns if its input is."""
    is_grouping = isinstance(transform.primitive, graph.GroupByKeyAndWindow)
    return _takes(transform, pipeline) and (not is_grouping or _is_final(transform, pipeline))


def _is_final(transform: graph.Transform, pipeline: graph.Graph) -> bool:
    """Return True for a grouping with one result for each key and window: panes of a stream are elements."""
    primitive = transform.primitive
    assert isinstance(primitive, graph.GroupByKeyAndWindow)
    is_final = not (primitive.windowing.trigger.element_wise or primitive.retracted)
    return is_final and all(pipeline.pcollections[i].is_bounded for i in transform.inputs)
