"""Execution of one segment on one partition, in an executor: the same for RDDs and for DataFrames."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import cloudpickle

from ....sdk.errors import RunnerError
from ....sdk.spark_interfaces import Block
from ....sdk.user_code.serialization import dumps
from ...execution.batch.attempts import OutputDigest, TaskAttempt
from ...execution.batch.segment_program import ReadRow, SegmentProgram, TaskReport
from ...execution.batch.segment_task import Destination, Send
from ...execution.counters import Counts
from ...execution.error_transport import wrapped
from ...execution.gc_tuning import set_modules_aside
from ...execution.page.profiles import profiled
from ...execution.plan.fusion import Source
from ...execution.plan.segments import Segment
from ...execution.stages.side_input_views import SideInputViews
from ...execution.stuck_calls import CallWatch
from ...execution.user_errors import as_exception
from ..dataframes import FrameOutput, Pack
from ..executor_functions import ExecutorFunction

# A row of a segment's output with its position among all rows of its destination: also of ("frame", label), for rows of
# DataFrames.  Besides, there are rows of `TaskAttempt`s, the last ones of a task: one for each reader, and one for the
# driver, with this destination.
ShuffleRow = tuple[Destination, int, int, bytes]
ATTEMPT: Destination = ("attempt", None)

# A position has the numbers of the segment, the partition, and the row, in so many bits.  The row of an attempt is 0.
_PARTITION_BITS = ROW_BITS = 24


def position_of(segment: int, partition: int, row: int) -> int:
    """Return the position of a row: in the order of segments, partitions and rows, as a number of 63 bits.

    >>> position_of(0, 1, 5) < position_of(0, 2, 0) < position_of(1, 0, 0) < 2**63
    True
    """
    if row >> ROW_BITS or partition >> _PARTITION_BITS or segment >> 15:
        raise RunnerError(
            f"partition {partition} of segment {segment} sends row {row}, and a shuffle has at most 32,768 segments of "
            "16,777,216 partitions of 16,777,216 rows; use more partitions (--spark_conf spark.default.parallelism=...)"
        )
    return (segment << _PARTITION_BITS | partition) << ROW_BITS | row


def segment_of(position: int) -> int:
    """Return the number of the segment of a row at a position."""
    return position >> _PARTITION_BITS + ROW_BITS


def is_attempt(position: int) -> bool:
    """Return True for the row of an attempt."""
    return not position & ((1 << ROW_BITS) - 1)


# By segment and partition.
Reports = dict[tuple[int, int], TaskReport]


class PartitionFunction(ExecutorFunction):
    """The work of a segment on a partition of its input.

    Args:
      readers: the number of readers of each shuffle: each needs the attempts of all tasks that send to it.
      packs: by the labels of DataFrame sinks, the functions that pack their rows.
      timeout: seconds after which a call that has not returned is named in the worker's log.
      has_page: whether the stacks of the steps and the traffic of all edges are reported.

    Raises `SerializationError` if a part of the segment can't be pickled.
    """

    def __init__(
        self, program: SegmentProgram, readers: int, packs: Mapping[str, Pack], timeout: float, has_page: bool
    ) -> None:
        self._payload = dumps((program, packs), program.segment.label)
        self._readers = readers
        self._timeout = timeout
        self._has_page = has_page

    def run(
        self, partition: int, rows: Iterable[Any], side_inputs: Callable[[], SideInputViews], reports: Reports
    ) -> Iterator[ShuffleRow]:
        """Yield the rows that the segment outputs for a partition, and add its report at the end.

        Args:
          rows: the rows of the partition: pickled splits, or `ReadRow`s.
          side_inputs: returns the segment's side inputs.
        """
        set_modules_aside()
        report, digest, read = TaskReport.empty(), OutputDigest(), list[TaskAttempt]()
        try:
            profile = profiled(report.stacks) if self._has_page else nullcontext()
            with CallWatch(self._timeout), profile:
                program: SegmentProgram
                program, packs = cloudpickle.loads(self._payload)
                if not isinstance(program.segment.root, Source):
                    rows = _without_attempts(rows, read)

                def frames(send: Send, counts: Counts) -> dict[str, FrameOutput]:
                    return {
                        label: FrameOutput(label, pack, partial(send, ("frame", label), 0), counts)
                        for label, pack in packs.items()
                    }

                made = program.rows(partition, rows, side_inputs(), report, frames, self._has_page)
                for number, (destination, group, block) in enumerate(made, 1):
                    digest.add(destination, group, block)
                    yield destination, group, position_of(program.number, partition, number), block
                attempt = program.attempt(partition, digest, read, packs)
                yield from self._attempts(program.segment, attempt, packs)
        except GeneratorExit:
            # Spark needs no more rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None
        reports[program.number, partition] = report

    def _attempts(self, segment: Segment, attempt: TaskAttempt, packs: Iterable[str]) -> Iterator[ShuffleRow]:
        """Yield the rows of the task's attempt, for the driver and for all readers of its output."""
        pickled, position = pickle.dumps(attempt, protocol=5), position_of(attempt.segment, attempt.partition, 0)
        to_one: list[Destination] = [("stored", pcollection) for pcollection in segment.stores]
        to_one += [("frame", label) for label in packs]
        for destination in (ATTEMPT, *to_one):
            yield destination, 0, position, pickled
        for label in segment.groupings:
            for reader in range(self._readers):
                yield ("grouping", label), reader, position, pickled


def _without_attempts(rows: Iterable[ReadRow], read: list[TaskAttempt]) -> Iterator[ReadRow]:
    """Yield the rows of blocks, and add those of attempts to `read`."""
    for row in rows:
        if is_attempt(row[1]):
            read.append(pickle.loads(row[2]))
        else:
            yield row


def pickled_split(block: Block) -> bytes:
    """Return a block of a DataFrame's rows as a split."""
    return pickle.dumps(block, protocol=5)
