"""Interfaces of DataFrames as inputs and outputs, which only Spark's runners support.

A frame is never split on the driver. A runner calls `frame` with the session of the run, has Spark compute the frame,
and reads *blocks* in Spark's tasks: rows in Arrow's format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..persistence import stored_as
from .elements.bundle import Bundle
from .errors import UnsupportedError
from .graph import Graph, ParDo, Read
from .sink import Sink, SinkContext, SinkWriter
from .sources.bounded import BoundedSource
from .sources.unbounded import UnboundedReader, UnboundedSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..windowing.timestamp import Timestamp


@stored_as("frame-block", 1)
class Block(NamedTuple):
    """Rows of a frame.

    Attributes:
      schema: an Arrow schema, serialised.
      rows: a record batch of that schema, as a message of Arrow's IPC.
    """

    schema: bytes
    rows: bytes


class BoundedFrame(BoundedSource[Any]):
    """A bounded DataFrame.  The splits of its `read_bundles` are blocks."""

    runners = ("spark-batch", "spark-microbatch")

    @abstractmethod
    def frame(self, session: Any) -> Any:
        """Return the DataFrame in a `SparkSession`.  Raises `SourceError` if it is missing."""

    def split(self, desired_splits: int) -> Sequence[Any]:
        raise _not_without_spark(self)


class UnboundedFrame(UnboundedSource[Any]):
    """A streaming DataFrame: a Structured Streaming query decides the content of a batch, and returns it as blocks."""

    runners = ("spark-microbatch",)

    @abstractmethod
    def frame(self, session: Any) -> Any:
        """Return the streaming DataFrame in a `SparkSession`.  Raises `SourceError` if it is missing."""

    @abstractmethod
    def read_bundles(self, split: Block) -> Iterator[Bundle]:
        """Yield the rows of a block, with their event times."""

    @abstractmethod
    def watermark(self, newest: Timestamp, now: Timestamp) -> Timestamp:
        """Return the watermark at `now`, when `newest` is the greatest event time of all earlier batches."""

    def partitions(self) -> Sequence[Any]:
        raise _not_without_spark(self)

    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[Any]:
        raise _not_without_spark(self)


class FrameSink(Sink[Any]):
    """A sink whose result is a DataFrame of the run's session."""

    runners = ("spark-batch",)

    @abstractmethod
    def schema(self, session: Any) -> Any:
        """Return the frame's `StructType`."""

    @abstractmethod
    def packer(self, schema: Any) -> Callable[[list[Any]], bytes]:
        """Return a picklable function from a list of elements to a stream of Arrow's IPC with one record batch."""

    def prepare(self, context: SinkContext) -> None:
        pass

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        raise _not_without_spark(self)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        pass

    def abort(self, context: SinkContext) -> None:
        pass


class HasFrames(ABC):
    """Result of a run with DataFrames as outputs."""

    @abstractmethod
    def frame(self, label: str) -> Any:
        """Return the DataFrame of the sink with this full label."""


def refuse_frames(graph: Graph, runner: str) -> None:
    """Raise `UnsupportedError` if a pipeline has a DataFrame that the runner doesn't support."""
    for transform in graph.transforms:
        primitive = transform.primitive
        subject: object = primitive.source if isinstance(primitive, Read) else None
        if isinstance(primitive, ParDo):
            subject = primitive.sink and primitive.sink.sink
        if isinstance(subject, (BoundedFrame, UnboundedFrame, FrameSink)) and runner not in subject.runners:
            what = "makes a DataFrame" if isinstance(subject, FrameSink) else "reads a DataFrame"
            raise UnsupportedError(
                f"{transform.label}: it {what}, which --runner={runner} can't; it needs "
                + " or ".join(f"--runner={name}" for name in subject.runners)
            )


def _not_without_spark(subject: BoundedFrame | UnboundedFrame | FrameSink) -> UnsupportedError:
    names = " or ".join(f"--runner={name}" for name in subject.runners)
    return UnsupportedError(f"{type(subject).__name__}: a DataFrame needs {names}")
