"""Interfaces of DataFrames, as inputs and as outputs that only Spark can read and make.

A frame is never split on the driver. A runner calls `frame` with the session of the run, has Spark compute the frame,
and reads *blocks* in Spark's tasks: rows in Arrow's format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..stored import stored_as
from .bundle import Bundle
from .errors import UnsupportedError
from .graph import Graph, ParDo, Read
from .sink import Sink, SinkWriter
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
    """A DataFrame that has an end.  What its `read_bundles` reads are blocks."""

    runners = ("spark-batch", "spark-microbatch")

    @abstractmethod
    def frame(self, session: Any) -> Any:
        """The DataFrame, in a `SparkSession`.  Raises `SourceError` when there is none."""

    def split(self, desired_splits: int) -> Sequence[Any]:
        raise _not_without_spark(self)


class UnboundedFrame(UnboundedSource[Any]):
    """A streaming DataFrame: Spark's own query finds out what a batch holds, and gives it as blocks."""

    runners = ("spark-microbatch",)

    @abstractmethod
    def frame(self, session: Any) -> Any:
        """The streaming DataFrame, in a `SparkSession`.  Raises `SourceError` when there is none."""

    def frame_identity(self, frame: Any) -> Mapping[str, Any]:
        """Return what the query's offsets depend on, by name: as `identity`, but of the DataFrame itself."""
        return {}

    @abstractmethod
    def read_bundles(self, split: Block) -> Iterator[Bundle]:
        """The rows of a block, with their event times."""

    @abstractmethod
    def watermark(self, newest: Timestamp, now: Timestamp) -> Timestamp:
        """How far it is when the greatest event time of all earlier batches is `newest`, and it is now `now`."""

    def partitions(self) -> Sequence[Any]:
        raise _not_without_spark(self)

    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[Any]:
        raise _not_without_spark(self)


class FrameSink(Sink[Any]):
    """A sink whose result is a DataFrame of the run's session."""

    runners = ("spark-batch",)

    @abstractmethod
    def schema(self, session: Any) -> Any:
        """The frame's `StructType`."""

    @abstractmethod
    def packer(self, schema: Any) -> Callable[[list[Any]], bytes]:
        """What makes a stream of Arrow's IPC, of one record batch, of a list of elements; picklable."""

    def prepare(self, transaction: str) -> None:
        pass

    def open_writer(self, transaction: str, unit: str) -> SinkWriter[Any]:
        raise _not_without_spark(self)

    def commit(self, transaction: str, staged: Sequence[Any]) -> None:
        pass

    def abort(self, transaction: str) -> None:
        pass


class HasFrames(ABC):
    """A result of a run that has made DataFrames."""

    @abstractmethod
    def frame(self, label: str) -> Any:
        """The DataFrame of the sink with this full label."""


def refuse_frames(graph: Graph, runner: str) -> None:
    """Raise `UnsupportedError` if a pipeline reads or makes a DataFrame that a runner can't read or make."""
    for transform in graph.transforms:
        primitive = transform.primitive
        subject: object = primitive.source if isinstance(primitive, Read) else None
        if isinstance(primitive, ParDo):
            subject = primitive.sink
        if isinstance(subject, (BoundedFrame, UnboundedFrame, FrameSink)) and runner not in subject.runners:
            what = "makes a DataFrame" if isinstance(subject, FrameSink) else "reads a DataFrame"
            raise UnsupportedError(
                f"{transform.label}: it {what}, which --runner={runner} can't; it needs "
                + " or ".join(f"--runner={name}" for name in subject.runners)
            )


def _not_without_spark(subject: BoundedFrame | UnboundedFrame | FrameSink) -> UnsupportedError:
    names = " or ".join(f"--runner={name}" for name in subject.runners)
    return UnsupportedError(f"{type(subject).__name__}: a DataFrame needs {names}")
