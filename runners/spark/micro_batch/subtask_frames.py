"""The job of a micro-batch over Spark Connect: a DataFrame for each task, with shuffles between them.

It does what `SubtaskRdds` does.  A row is a message, with the number of the subtask that it is for.  Spark runs a
subtask in any Python worker.  One that has its state from the batch before goes on with it, and any other restores it
from the checkpoint first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from ....frozen import frozen
from ....io.optional_package import optional_package
from ....io.spark.arrow_rows import pyarrow
from ..executor_functions import ExecutorFunction
from ..remote_jobs import by_number
from .exchange import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a subtask sends for the rows that it is sent.
RowFunction: TypeAlias = Callable[[Iterable[bytes]], Iterator[Row]]

_SCHEMA = "number int, block binary"

# About the size of a record batch that a task sends, in bytes.
_BATCH_BYTES = 1 << 20


@frozen
class CarriedPayload:
    """A program that goes along with each function, since Spark Connect has no broadcasts."""

    value: bytes


class SubtaskFrames:
    """The DataFrames of one job, task by task.

    Args:
      parallelism: the number of subtasks of each task.

    Raises `MissingExtraError` without the client's packages.
    """

    def __init__(self, session: SparkSession, parallelism: int) -> None:
        pyarrow()
        optional_package("pandas", extra="connect", needed_for="--spark_remote")
        self._session = session
        self._parallelism = parallelism
        self._rows: DataFrame | None = None

    def add_task(self, function_of: Callable[[int], RowFunction], splits: Sequence[bytes]) -> None:
        """Append a task, whose subtasks read the rows that the task before has sent them.

        Args:
          function_of: returns the function of a subtask, by its index.
          splits: the row that each subtask of the first task reads.
        """
        rows = self._of_splits(splits) if self._rows is None else self._rows
        placed = by_number(rows, self._parallelism)
        if not hasattr(rows, "repartitionById"):
            # A partition may have the rows of several subtasks.
            placed = placed.sortWithinPartitions("number")
        self._rows = placed.mapInArrow(_FrameFunction(list(map(function_of, range(self._parallelism)))), _SCHEMA)

    def collect(self) -> list[bytes]:
        """Run the job and return the data that the last task's subtasks have sent.  The next task is a first one."""
        rows, self._rows = self._rows, None
        assert rows is not None
        found: list[bytes] = rows.toArrow()["block"].to_pylist()
        return found

    def _of_splits(self, splits: Sequence[bytes]) -> DataFrame:
        pa = pyarrow()
        columns = [pa.array(range(len(splits)), pa.int32()), pa.array(splits, pa.binary())]
        return self._session.createDataFrame(pa.table(columns, names=["number", "block"]))


class _FrameFunction(ExecutorFunction):
    """The function that Spark calls with each partition of a task's input."""

    def __init__(self, functions: Sequence[RowFunction]) -> None:
        self._functions = functions

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that the subtasks of a partition send, as record batches."""
        rows = ((n.as_py(), block.as_py()) for batch in batches for n, block in zip(*batch.columns, strict=True))
        sent: list[Row] = []
        size = 0
        for number, own in groupby(rows, key=itemgetter(0)):
            for row in self._functions[number](block for _, block in own):
                sent.append(row)
                size += len(row[1])
                if size >= _BATCH_BYTES:
                    yield _batch_of(sent)
                    sent, size = [], 0
        yield _batch_of(sent)


def _batch_of(rows: Sequence[Row]) -> Any:
    pa = pyarrow()
    arrays = [pa.array([n for n, _ in rows], pa.int32()), pa.array([block for _, block in rows], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, ["number", "block"])
