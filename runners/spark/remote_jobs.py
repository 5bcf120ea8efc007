"""The jobs of one run over Spark Connect: their tag, cancellation, and where rows are sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from ...sdk.redaction import logger_of
from .jobs import STOPPING_SECONDS, said

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

_logger = logger_of(__name__)


class RemoteJobs:
    """The jobs with a tag, as `Jobs` has those of a group.

    Args:
      tag: the unique tag.
      parallelism: the number of cores of the server.
    """

    def __init__(self, session: SparkSession, tag: str, parallelism: int) -> None:
        self._session = session
        self._tag = tag
        self._parallelism = parallelism

    @contextmanager
    def tagged(self) -> Iterator[None]:
        """Give the jobs that this thread starts in the block the tag."""
        self._session.addTag(self._tag)
        try:
            yield
        finally:
            self._session.removeTag(self._tag)

    def run(self, description: str, job: Callable[[], T]) -> T:
        """Call a function that starts jobs, with the tag; the server shows no description."""
        with self.tagged():
            return job()

    def cancel(self, waits: bool = True) -> None:
        """Cancel the running jobs, and if asked to, wait until none of their tasks can write any more."""
        with suppress(Exception):
            self._session.interruptTag(self._tag)
            if waits:
                self._wait_for_tasks()

    def activity(self) -> str:
        """Return "": Spark Connect doesn't tell which tasks run."""
        return ""

    def _wait_for_tasks(self) -> None:
        """Wait until the interrupted tasks have ended.

        Spark Connect doesn't tell which tasks run.  A barrier stage starts when it has a core for each of its tasks, so
        one with as many tasks as there are cores starts when no other task runs.  Where Spark refuses that, as it does
        with dynamic allocation, the longest time is waited that Spark takes to stop a task.
        """
        session, tag = self._session, f"{self._tag}-end"
        refused: list[Exception] = []

        def run() -> None:
            session.addTag(tag)
            numbers = session.range(0, self._parallelism, 1, self._parallelism)
            try:
                numbers.mapInArrow(lambda batches: batches, "id bigint", barrier=True).collect()
            except Exception as error:  # whatever it is, the tasks aren't known to have ended
                refused.append(error)

        until = time.monotonic() + STOPPING_SECONDS
        waiting = threading.Thread(target=run, name="penstock-cancel", daemon=True)
        waiting.start()
        waiting.join(STOPPING_SECONDS)
        if waiting.is_alive():
            session.interruptTag(tag)
        elif refused:
            _logger.warning(
                "Spark Connect does not tell whether the interrupted tasks have ended; waiting %g s for them (%s)",
                STOPPING_SECONDS,
                said(str(refused[0])).partition("\n")[0],
            )
            time.sleep(max(0.0, until - time.monotonic()))


def default_parallelism(session: SparkSession) -> int:
    """Return the default parallelism of the server, which Spark Connect doesn't tell otherwise."""
    from pyspark.sql.connect import functions

    partitions = session.range(1 << 16).select(functions.spark_partition_id().alias("id"))
    return int(partitions.agg({"id": "max"}).toArrow().column(0)[0].as_py()) + 1


def by_number(rows: DataFrame, partitions: int) -> DataFrame:
    """Return rows in partitions by their column `number`, which is less than `partitions`.

    Spark 4.1 and newer have a partition for each number; before that, a hash chooses, and some have several.
    """
    repartitioned: DataFrame = getattr(rows, "repartitionById", rows.repartition)(partitions, "number")
    return repartitioned
