"""Programs of the data source: transforms of a user as the one segment that Spark's tasks run.

A transform may have any number of steps that process each element by itself.  A grouping needs a shuffle, which a data
source doesn't have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
import cloudpickle

from ....frozen import frozen
from ....io.spark.arrow_rows import Packer, arrow_schema, pyarrow
from ....io.spark.dataframes import DataFrameSink, FromSpark
from ....io.spark.schema import schema_of
from ....sdk import graph
from ....sdk.elements.bundle import Bundle
from ....sdk.errors import PipelineError, UnsupportedError
from ....sdk.options import PipelineOptions
from ....sdk.pipeline import Pipeline
from ....sdk.process.carried_settings import CarriedSettings
from ....sdk.ptransform import PTransform
from ....sdk.pvalue import PCollection
from ....sdk.sources.bounded import BoundedSource
from ....sdk.sources.unbounded import UnboundedSource
from ....sdk.spark_interfaces import BoundedFrame, FrameSink, UnboundedFrame
from ....sdk.user_code.serialization import dumps, local_modules_by_value
from ....transforms.write import Write
from ....windowing.timestamp import Timestamp
from ...execution.batch.bounded_program import BoundedProgram
from ...execution.batch.segment_program import SegmentProgram, TaskReport, decoded
from ...execution.gc_tuning import set_modules_aside
from ...execution.plan.fusion import Source, fuse, shrinks
from ...execution.sinks.committer import sinks_of
from ...execution.user_errors import guarded, guarded_items
from ..dataframes import FrameOutput

_ROWS = "Rows"


class Input:
    """A transform that reads, as a source of rows.

    Args:
      label: the name that it is registered by.

    Attributes:
      schema: the columns as DDL, derived from the type hint of the elements; None if it doesn't tell.
      source: the source of its Read.

    Raises `UnsupportedError` for a transform that isn't one Read with steps of each element behind it.
    """

    def __init__(self, label: str, transform: PTransform) -> None:
        self.label = label
        self._pipeline = Pipeline("local", options=PipelineOptions([]))
        self._elements = self._pipeline | label >> transform
        if not isinstance(self._elements, PCollection):
            raise UnsupportedError(f"{label}: expected a transform with one output, got {self._elements!r}")
        self.schema = schema_of(self._elements.hint)
        reads = [t for t in self._pipeline.graph().transforms if isinstance(t.primitive, graph.Read)]
        if len(reads) != 1:
            raise UnsupportedError(
                f"{label}: expected a transform with one source, found {len(reads)}"
                + "".join(f", {read.label}" for read in reads)
                + "; register each source by itself, and use the union of the DataFrames"
            )
        assert isinstance(reads[0].primitive, graph.Read)
        self.read_label, self.source = reads[0].label, reads[0].primitive.source
        if isinstance(self.source, (BoundedFrame, UnboundedFrame)):
            raise UnsupportedError(f"{reads[0].label}: it reads a DataFrame; use the DataFrame itself")
        if not isinstance(self.source, (BoundedSource, UnboundedSource)):
            raise UnsupportedError(f"{reads[0].label}: a script controls the clock, and Spark has its own")
        if isinstance(self.source, UnboundedSource) and not self.source.replayable:
            raise UnsupportedError(
                f"{reads[0].label}: its source can't be read again at an offset, which a batch that Spark repeats "
                "needs; --runner=spark-microbatch logs such elements"
            )
        _one_segment(label, self._pipeline.graph())

    @property
    def is_bounded(self) -> bool:
        """Whether the source is bounded."""
        return isinstance(self.source, BoundedSource)

    def step(self) -> Source:
        """Return the Read of an unbounded source as a step."""
        (read,) = [t for t in self._pipeline.graph().transforms if isinstance(t.primitive, graph.Read)]
        return Source(read)

    def program(self, schema: Any) -> InputProgram:
        """Return the program of the tasks.

        Args:
          schema: the columns, a `StructType`.
        """
        arrow = arrow_schema(schema, self.label)
        rows = DataFrameSink(schema, self.label)
        self._elements | f"{_ROWS} of {self.label}" >> Write(rows)
        program = _one_segment(self.label, _with_ranges(self._pipeline.graph()))
        (label,) = sinks_of(program.plan)
        return InputProgram(_pickled(program, self.label), label, arrow)


@frozen
class InputProgram:
    """The program of tasks that read.

    Attributes:
      pickled: the program.
      sink: the label of the sink of its rows.
      schema: the columns, an Arrow schema.
    """

    pickled: bytes
    sink: str
    schema: Any

    def bounded(self) -> BoundedProgram:
        """Return the program."""
        return _unpickled(self.pickled)

    def batches(self, partition: int, splits: Sequence[bytes]) -> Iterator[Any]:
        """Yield the rows of pickled splits as record batches."""
        pa, pack = pyarrow(), Packer(self.schema, self.sink)
        for (kind, _), block in _rows(self.bounded(), partition, splits, {self.sink: pack}):
            if kind == "frame":
                yield from pa.ipc.open_stream(block)


class Output:
    """A transform that writes, as a sink of rows.

    Args:
      label: the name that it is registered by.
      schema: the columns of its input, a `StructType`.
      timestamp: the column of the event times, or None.

    Raises `UnsupportedError` for a transform without exactly one sink, or with a grouping.
    """

    def __init__(self, label: str, transform: PTransform, schema: Any, timestamp: str | None) -> None:
        pipeline = Pipeline("local", options=PipelineOptions([]))
        rows = FromSpark(_Described(schema, schema.names), timestamp)
        # Checks the column.
        rows.source.labelled(label).frame(None)
        pipeline | f"{_ROWS} of {label}" >> rows | label >> transform
        self._program = _one_segment(label, pipeline.graph())
        sinks = sinks_of(self._program.plan)
        if len(sinks) != 1 or any(isinstance(each.sink, FrameSink) for each in sinks.values()):
            raise UnsupportedError(
                f"{label}: expected a transform with one sink, found {', '.join(sinks) or 'none'}; register each sink "
                "by itself"
            )
        ((self.sink_label, self.sink),) = sinks.items()
        self.schema = arrow_schema(schema, label)
        self.label = label

    def pickled(self) -> bytes:
        """Return the program of the tasks, pickled."""
        return _pickled(self._program, self.label)


def staged(pickled: bytes, transaction: str, partition: int, blocks: Iterable[bytes]) -> list[bytes]:
    """Run a task that writes; return the tokens of what it has staged, pickled.

    Args:
      pickled: the program of an `Output`.
      blocks: its rows, as pickled splits.
    """
    program = _unpickled(pickled)
    program.transaction = transaction
    return [block for (kind, _), block in _rows(program, partition, blocks, {}) if kind == "sink"]


def _rows(
    program: BoundedProgram, partition: int, splits: Iterable[bytes], packs: dict[str, Packer]
) -> Iterator[tuple[Any, bytes]]:
    set_modules_aside()

    def frames(send: Any, counts: Any) -> dict[str, FrameOutput]:
        return {
            label: FrameOutput(label, pack, partial(send, ("frame", label), 0), counts) for label, pack in packs.items()
        }

    task = SegmentProgram.of(program, 0)
    for destination, _, block in task.rows(partition, splits, decoded({}), TaskReport.empty(), frames):
        yield destination, block


def _one_segment(label: str, pipeline: graph.Graph) -> BoundedProgram:
    program = BoundedProgram(fuse(pipeline, shrinks))
    for transform in pipeline.transforms:
        primitive = transform.primitive
        is_keyed = isinstance(primitive, graph.ParDo) and primitive.keyed is not None
        if is_keyed or isinstance(primitive, (graph.GroupByKeyAndWindow, graph.Feedback)) or transform.side_inputs:
            why = "has a side input" if transform.side_inputs else "needs a shuffle"
            raise UnsupportedError(
                f"{transform.label}: it {why}, and the data source {label!r} processes each element by itself; do that "
                "in the DataFrame, or run a pipeline with ToSpark or FromSpark"
            )
    return program


def _pickled(program: BoundedProgram, label: str) -> bytes:
    with local_modules_by_value():
        return dumps((program, CarriedSettings.of_this_process()), label)


def _unpickled(data: bytes) -> BoundedProgram:
    program: BoundedProgram
    program, settings = cloudpickle.loads(data)
    settings.apply()
    return program


@frozen
class _Described:
    """The columns of a DataFrame, in its place."""

    schema: Any
    columns: Sequence[str]
    isStreaming: bool = False


# --- Ranges of an unbounded source


@frozen
class Range:
    """A partition of an unbounded source, from one offset to another, at a processing time in microseconds."""

    partition: Any
    start: Any
    end: Any
    now: int


class RangeSource(BoundedSource[Any]):
    """An unbounded source, whose splits are `Range`s."""

    def __init__(self, label: str, source: UnboundedSource[Any]) -> None:
        self._label = label
        self._source = source

    def split(self, desired_splits: int) -> Sequence[Any]:
        raise PipelineError(f"{self._label}: Spark plans the ranges of an unbounded source")

    def read_bundles(self, split: Range) -> Iterator[Bundle]:
        reader = guarded(self._label, lambda: self._source.open(split.partition, split.start))
        try:
            yield from guarded_items(self._label, lambda: reader.read_to(split.end, Timestamp.of_micros(split.now)))
        finally:
            reader.close()


def _with_ranges(pipeline: graph.Graph) -> graph.Graph:
    """Return a graph whose unbounded source is bounded: a batch reads ranges of it."""

    def bounded(transform: graph.Transform) -> graph.Transform:
        primitive = transform.primitive
        if not isinstance(primitive, graph.Read) or not isinstance(primitive.source, UnboundedSource):
            return transform
        source = RangeSource(transform.label, primitive.source.for_run())
        return attrs.evolve(transform, primitive=attrs.evolve(primitive, source=source))

    nodes = {i: attrs.evolve(node, is_bounded=True) for i, node in pipeline.pcollections.items()}
    return attrs.evolve(pipeline, transforms=tuple(map(bounded, pipeline.transforms)), pcollections=nodes)
