"""A streaming DataFrame on the driver, whose batches a Structured Streaming query delivers.

Spark's query plans its next batch, writes the plan to a checkpoint of its own, and calls this process with the batch
(`foreachBatch`).  The call returns when a micro-batch of ours has read Spark's batch and is committed; then Spark
commits its batch, too.  So there are two logs, and the query's is never ahead
(docs/decisions/011-two-logs-of-a-spark-stream.md):

- If this process fails after Spark has delivered a batch, Spark delivers it again, with the same number and rows.  Our
  batch runs again as planned, or is planned now.
- If our batch is committed and Spark's is not, Spark delivers it again, and the call returns at once.

Between Spark's batches, ours run without input when a timer or a watermark is due.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import attrs

from ....frozen import frozen
from ....persistence import stored_as
from ....sdk import graph
from ....sdk.errors import CheckpointMismatchError, RunnerError, SourceError
from ....sdk.process.working_directory import absolute
from ....sdk.spark_interfaces import UnboundedFrame
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ...execution.checkpoints.storage import Disk
from ...execution.plan.fusion import Source
from ...execution.plan.source_identities import changes_of_sources, described
from ...execution.user_errors import guarded
from ..dataframes import opened
from ..private import stream_sources
from .plan import BatchInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The directory of the queries' checkpoints, in the directory of ours.
STREAMS = "spark-streams"

# The interval, in seconds, at which a wait checks that the query still runs.
_CHECK_SECONDS = 0.2

# The longest time, in seconds, that due timers wait for a batch that Spark plans.
_EXPECTED_SECONDS = 1.0


@frozen
class StreamSettings:
    """The settings of Spark's queries.

    Attributes:
      directory: the directory of our checkpoints, on `disk`.
      interval: the least time between the starts of batches, in microseconds.
      available_now: whether queries end after the data that existed when they began.
      allow_changed: whether queries with another input resume from their offsets.
      is_cancelled: whether the run was cancelled.
    """

    session: SparkSession
    directory: str
    disk: Disk
    interval: int
    available_now: bool
    is_cancelled: Callable[[], bool]
    allow_changed: bool = False


@stored_as("frame-stream-position", 1)
@attrs.define
class _Position:
    """A position: the number of the last batch that was read, the clocks, and the identity of the query's input."""

    taken: int = -1
    newest: int | None = None
    watermark: int = MIN_MICROS
    is_drained: bool = False
    is_finished: bool = False
    identity: Mapping[str, Any] | None = None


class DriverFrameStream:
    """One streaming DataFrame, and Spark's query that reads it."""

    def __init__(self, step: Source, settings: StreamSettings) -> None:
        self.label = step.transform.label
        primitive = step.transform.primitive
        assert isinstance(primitive, graph.Read)
        assert isinstance(primitive.source, UnboundedFrame)
        self._source = primitive.source
        (self._output,) = step.transform.outputs.values()
        self._settings = settings
        self._at = _Position()
        self._done = -1
        self._query: Any = None
        # The batch that Spark's thread has delivered; the thread waits until it is committed.
        self._changed = threading.Condition()
        self._delivered: tuple[int, Any] | None = None
        self._is_closed = False
        self._acknowledged = time.monotonic()

    @property
    def is_finished(self) -> bool:
        """True if no batch will read more."""
        return self._at.is_finished

    @property
    def has_data(self) -> bool:
        """True if a batch of Spark's waits to be read."""
        with self._changed:
            return self._delivered is not None

    @property
    def awaits_data(self) -> bool:
        """True if Spark may still deliver data that existed when the query began.

        Raises `RunnerError` if the query has failed.
        """
        if self._query is None:
            # The query starts after the batch of the bounded sources.
            return not (self._at.is_drained or self._at.is_finished)
        if self._query.isActive:
            return True
        # The query may have failed since the last batch was planned.
        self._check()
        return False

    @property
    def expects_data(self) -> bool:
        """True if Spark is about to deliver a batch, as far as it tells.

        A query that ends delivers all data that existed when it began.  Any other is asked whether it plans a batch,
        for a second after the last one: a source may keep it waiting, and timers are due.
        """
        if self._query is None or self._at.is_finished:
            return False
        if self._settings.available_now:
            return bool(self._query.isActive)
        is_recent = time.monotonic() - self._acknowledged < _EXPECTED_SECONDS
        return is_recent and bool(self._query.isActive and self._query.status["isTriggerActive"])

    def drain(self) -> None:
        """End the stream after the batch that Spark has delivered, if any."""
        self._at.is_drained = True

    def add_input(self, into: BatchInput) -> None:
        """Add Spark's batch, if one was delivered, and the watermark to a batch of ours."""
        at = self._at
        if at.is_finished:
            into.watermarks[self._output] = MAX_MICROS
            return
        if self._query is None and not at.is_drained:
            self._start()
        self._check()
        with self._changed:
            if self._delivered is not None:
                number = self._delivered[0]
                if number != at.taken + 1:
                    raise self._mismatch(number, at.taken + 1)
                at.taken = into.frames[self.label] = number
            # Under the lock, so that no batch is delivered in between.
            at.is_finished = at.is_drained
        if at.is_finished:
            at.watermark = MAX_MICROS
        elif at.newest is not None:
            newest, now = Timestamp.of_micros(at.newest), Timestamp.of_micros(into.now)
            at.watermark = max(at.watermark, guarded(self.label, lambda: self._source.watermark(newest, now)).micros)
        into.watermarks[self._output] = at.watermark

    def observe(self, newest: int) -> None:
        """Note the greatest event time of a committed batch."""
        self._at.newest = newest if self._at.newest is None else max(self._at.newest, newest)

    def frame(self, number: int) -> Any:
        """Return one of Spark's batches as a DataFrame; after a restart, wait until Spark delivers it again."""
        if self._query is None:
            self._start()
        while True:
            with self._changed:
                if self._delivered is None:
                    self._changed.wait(_CHECK_SECONDS)
                if self._delivered is not None:
                    found, frame = self._delivered
                    if found == number:
                        return frame
                    raise self._mismatch(found, number)
            self._check()
            if self._settings.is_cancelled():
                raise RunnerError(f"{self.label}: cancelled while waiting for batch {number} of Spark's query")

    # Positions

    def position(self) -> Any:
        """Return the position after the last planned batch."""
        return attrs.evolve(self._at)

    def restore(self, position: Any) -> None:
        """Continue from a position."""
        self._at = attrs.evolve(position)

    def acknowledge(self, position: Any) -> None:
        """Let Spark's call return: a batch of ours with this position is committed."""
        with self._changed:
            if position.taken > self._done:
                self._acknowledged = time.monotonic()
            self._done = position.taken
            if self._delivered is not None and self._delivered[0] <= self._done:
                self._delivered = None
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the query.  After a restart it delivers again the batch that is not committed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()

    # Spark's query

    def _start(self) -> None:
        settings = self._settings
        path = f"{STREAMS}/{quote(self.label, safe='')}"
        # Spark's checkpoint has the offsets of the last batch that was delivered, or it is another query's.
        known = f"{settings.directory}/{path}/offsets/{self._done}"
        if self._done >= 0 and not settings.disk.exists(known):
            raise CheckpointMismatchError(
                f"{self.label}: the last batch of Spark's query that was read has the number {self._done}, but "
                f"there is no {known}. Keep the query's own checkpoint with ours, or give another --checkpoint_dir to "
                "start from the beginning"
            )
        frame = opened(self.label, self._source, settings.session)
        self._check_identity(stream_sources(frame))
        writer = frame.writeStream.foreachBatch(self._deliver).queryName(f"{self.label} ({uuid4().hex[:8]})")
        writer = writer.option("checkpointLocation", f"{_as_url(settings.directory)}/{path}")
        if settings.available_now:
            writer = writer.trigger(availableNow=True)
        elif settings.interval:
            writer = writer.trigger(processingTime=f"{max(1, settings.interval // 1000)} milliseconds")
        self._query = guarded(self.label, lambda: _started(self.label, writer))

    def _check_identity(self, identity: Mapping[str, Any] | None) -> None:
        if identity is None:
            return
        before, self._at.identity = self._at.identity, identity
        changes = [] if before is None else changes_of_sources({self.label: before}, {self.label: identity})
        if changes and not self._settings.allow_changed:
            raise CheckpointMismatchError(
                f"{self.label}: Spark's query has offsets of another input than the DataFrame reads: "
                f"{described(changes)}. Restore the input, give another --checkpoint_dir to start from the beginning, "
                "or, if the same input has moved, --allow_changed_sources to resume from those offsets"
            )

    def _deliver(self, frame: Any, number: int) -> None:
        """Take a batch from Spark, which calls this in a thread of its own."""
        with self._changed:
            if number <= self._done:
                return
            self._delivered = number, frame
            self._changed.notify_all()
            while self._done < number and not self._is_closed:
                self._changed.wait()
            if self._done < number:
                # Any exception keeps Spark from committing its batch.
                raise InterruptedError(f"{self.label}: batch {number} isn't committed. It will be read again")

    def _check(self) -> None:
        """Raise `RunnerError` if the query has failed or was stopped."""
        query = self._query
        if query is None or query.isActive:
            return
        failure = query.exception()
        if failure is not None:
            raise RunnerError(f"{self.label}: Spark's streaming query failed: {_first_line(str(failure))}") from failure
        if not self._settings.available_now and not self._at.is_drained:
            raise RunnerError(f"{self.label}: Spark's streaming query was stopped, but not by this run")

    def _mismatch(self, found: int, expected: int) -> CheckpointMismatchError:
        return CheckpointMismatchError(
            f"{self.label}: Spark's query continues with its batch {found}, expected batch {expected}: its checkpoint "
            f"({STREAMS}, in the --checkpoint_dir) and ours were not taken together. Restore both, or give another "
            "--checkpoint_dir to start from the beginning"
        )


def _first_line(text: str) -> str:
    """Return the first line of a message of Spark's, without the query plan and stack traces."""
    return text.split("\n", 1)[0][:500]


def _started(label: str, writer: Any) -> Any:
    from pyspark.errors import AnalysisException

    try:
        return writer.start()
    except AnalysisException as error:
        raise SourceError(
            f"{label}: Spark can't stream this DataFrame: {_first_line(str(error))}. It may filter, select, and join "
            "with tables. Group in the pipeline instead"
        ) from error


def _as_url(directory: str) -> str:
    """Return a directory as a URL: a path is a local one, not one of the cluster's default file system."""
    from pathlib import Path

    return directory if "://" in directory else Path(absolute(directory)).as_uri()
