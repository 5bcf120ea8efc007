"""A streaming DataFrame as the driver sees it: batches that a Structured Streaming query brings, one by one.

Spark's query finds out what is new, writes down what its next batch holds, in a checkpoint of its own, and
calls this process with that batch (`foreachBatch`).  The call waits until one of our batches has read it and
is committed; only then does Spark call it done.  So there are two logs, and the query's is never ahead:

- Spark's batch is announced and we go down: Spark announces it again, with the same number and the same rows.
  If ours was planned already it runs as it was planned, else it is planned anew.
- Ours is committed, and Spark hasn't heard of it: Spark announces it again, and is told that it is done.

Between Spark's batches ours go on whenever a timer or a watermark is due; those read nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import attrs

from ....sdk import graph
from ....sdk.errors import CheckpointMismatchError, RunnerError, SourceError
from ....sdk.spark_interfaces import UnboundedFrame
from ....stored import stored_as
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS, Timestamp
from ...execution.checkpoints.storage import Disk
from ...execution.plan.fusion import Source
from ...execution.plan.source_identities import changes_of_sources, described
from ...execution.user_errors import guarded
from ..dataframes import opened
from .plan import Gathered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where, in the directory of our checkpoints, those of the queries are.
STREAMS = "spark-streams"

# Seconds: how often it is looked whether a query still runs.
_LOOK = 0.2


@attrs.frozen
class StreamSettings:
    """What queries are started with.

    Attributes:
      directory: where our checkpoints are, on `disk`.
      interval: microseconds from one batch to the next, at least.
      available_now: whether they end when all has been read that was there when they began.
      allow_changed: resume queries from their offsets, also those with another input.
      is_cancelled: whether nobody waits for them any more.
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
    """Where it stands: the number of Spark's batch that was taken last, the clocks, and what the query reads."""

    taken: int = -1
    newest: int | None = None
    watermark: int = MIN_MICROS
    is_drained: bool = False
    is_finished: bool = False
    identity: Mapping[str, Any] | None = None


class StreamOnDriver:
    """One streaming DataFrame, and Spark's query that reads it.

    Attributes:
      is_finished: whether nothing more will come.
    """

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
        # What Spark's thread has brought; it waits until that is done.
        self._changed = threading.Condition()
        self._brought: tuple[int, Any] | None = None
        self._is_closed = False

    @property
    def is_finished(self) -> bool:
        return self._at.is_finished

    @property
    def has_come(self) -> bool:
        """Whether a batch of Spark's waits to be read."""
        with self._changed:
            return self._brought is not None

    @property
    def is_awaited(self) -> bool:
        """Whether something may still come of what was there when the query began.

        Raises what has made the query end, if it has failed.
        """
        if self._query is None:
            # What is bounded is read first, even if there is nothing of it.
            return not (self._at.is_drained or self._at.is_finished)
        if self._query.isActive:
            return True
        # Since the last batch was gathered it may have failed: that isn't its end.
        self._check()
        return False

    # What the next batch reads

    def drain(self) -> None:
        """Read no more than what Spark has brought already."""
        self._at.is_drained = True

    def gather(self, into: Gathered) -> None:
        """Add what has come."""
        at = self._at
        if at.is_finished:
            into.watermarks[self._output] = MAX_MICROS
            return
        if self._query is None and not at.is_drained:
            self._start()
        self._check()
        with self._changed:
            if self._brought is not None:
                number = self._brought[0]
                if number != at.taken + 1:
                    raise self._mismatch(number, at.taken + 1)
                at.taken = into.frames[self.label] = number
            # Asked in the same breath: nothing can have come in between.
            at.is_finished = at.is_drained
        if at.is_finished:
            at.watermark = MAX_MICROS
        elif at.newest is not None:
            newest, now = Timestamp.of_micros(at.newest), Timestamp.of_micros(into.now)
            at.watermark = max(at.watermark, guarded(self.label, lambda: self._source.watermark(newest, now)).micros)
        into.watermarks[self._output] = at.watermark

    def heard(self, newest: int) -> None:
        """The greatest event time of a batch that is committed."""
        self._at.newest = newest if self._at.newest is None else max(self._at.newest, newest)

    def frame(self, number: int) -> Any:
        """The rows of one of Spark's batches, as a DataFrame; waits until Spark has brought it, again."""
        if self._query is None:
            self._start()
        while True:
            with self._changed:
                if self._brought is None:
                    self._changed.wait(_LOOK)
                if self._brought is not None:
                    found, frame = self._brought
                    if found == number:
                        return frame
                    raise self._mismatch(found, number)
            self._check()
            if self._settings.is_cancelled():
                raise RunnerError(f"{self.label}: cancelled while it waited for batch {number} of Spark's query")

    # Where it stands

    def position(self) -> Any:
        """Where it stands."""
        return attrs.evolve(self._at)

    def restore(self, position: Any) -> None:
        """Go on from there."""
        self._at = attrs.evolve(position)

    def acknowledge(self, position: Any) -> None:
        """A batch with this position is committed: Spark's call that brought it may return."""
        with self._changed:
            self._done = position.taken
            if self._brought is not None and self._brought[0] <= self._done:
                self._brought = None
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the query; what it has brought and nobody has committed, it brings again when it is started again."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._query is not None:
            self._query.stop()

    # Spark's query

    def _start(self) -> None:
        settings = self._settings
        place = f"{STREAMS}/{quote(self.label, safe='')}"
        # Spark says of the last batch that it has announced what is in it; a directory without that isn't this query's.
        known = f"{settings.directory}/{place}/offsets/{self._done}"
        if self._done >= 0 and not settings.disk.exists(known):
            raise CheckpointMismatchError(
                f"{self.label}: the last batch of Spark's query that was read has the number {self._done}, but "
                f"there is no {known}; the query's own checkpoint has to be kept with ours. Give "
                "another --checkpoint_dir to begin again"
            )
        frame = opened(self.label, self._source, settings.session)
        self._check_identity(guarded(self.label, lambda: dict(self._source.frame_identity(frame))))
        writer = frame.writeStream.foreachBatch(self._bring).queryName(f"{self.label} ({uuid4().hex[:8]})")
        writer = writer.option("checkpointLocation", f"{_as_url(settings.directory)}/{place}")
        if settings.available_now:
            writer = writer.trigger(availableNow=True)
        elif settings.interval:
            writer = writer.trigger(processingTime=f"{max(1, settings.interval // 1000)} milliseconds")
        self._query = guarded(self.label, lambda: _started(self.label, writer))

    def _check_identity(self, identity: Mapping[str, Any]) -> None:
        before, self._at.identity = self._at.identity, identity
        changes = [] if before is None else changes_of_sources({self.label: before}, {self.label: identity})
        if changes and not self._settings.allow_changed:
            raise CheckpointMismatchError(
                f"{self.label}: Spark's query has offsets of another input than the DataFrame reads: "
                f"{described(changes)}. Restore the input, give another --checkpoint_dir to start from the beginning, "
                "or, if the same input has moved, --allow_changed_sources to resume from those offsets"
            )

    def _bring(self, frame: Any, number: int) -> None:
        """What Spark calls, in a thread of its own, with each of its batches."""
        with self._changed:
            if number <= self._done:
                return
            self._brought = number, frame
            self._changed.notify_all()
            while self._done < number and not self._is_closed:
                self._changed.wait()
            if self._done < number:
                # Whatever is raised: Spark mustn't take it for done.
                raise InterruptedError(f"{self.label}: batch {number} isn't committed; it will be read again")

    def _check(self) -> None:
        """Raise what has made the query end, if anything has."""
        query = self._query
        if query is None or query.isActive:
            return
        failure = query.exception()
        if failure is not None:
            raise RunnerError(f"{self.label}: Spark's streaming query failed: {_said(str(failure))}") from failure
        if not self._settings.available_now and not self._at.is_drained:
            raise RunnerError(f"{self.label}: Spark's streaming query was stopped by somebody else")

    def _mismatch(self, found: int, expected: int) -> CheckpointMismatchError:
        return CheckpointMismatchError(
            f"{self.label}: Spark's query goes on with its batch {found}, but the next to be read is {expected}: "
            f"its checkpoint ({STREAMS}, in the --checkpoint_dir) and ours aren't of the same time. Restore them "
            "together, or give another --checkpoint_dir to begin again"
        )


def _said(text: str) -> str:
    """What matters in a message of Spark's, which has a plan and stacks behind it."""
    return text.split("\n", 1)[0][:500]


def _started(label: str, writer: Any) -> Any:
    from pyspark.errors import AnalysisException

    try:
        return writer.start()
    except AnalysisException as error:
        raise SourceError(
            f"{label}: Spark can't stream this DataFrame: {_said(str(error))}. It may filter, select, and join with "
            "tables; what is to be grouped, let the pipeline group"
        ) from error


def _as_url(directory: str) -> str:
    """A directory as Spark is told of it: a path is a local one, whatever file system the cluster has by default."""
    from pathlib import Path

    return directory if "://" in directory else Path(directory).absolute().as_uri()
