"""Execution of one segment on one partition, in an executor: the same for RDDs and for DataFrames."""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import attrs
import cloudpickle

from ....sdk import graph
from ....sdk.coders import registry
from ....sdk.errors import RunnerError
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.spark_interfaces import Block
from ....sdk.task_name import task_named
from ....sdk.user_code.serialization import dumps
from ...execution.batch.segment_task import Destination, KeyGroups, SegmentTask, steps_of
from ...execution.counters import BusyTime, Counts
from ...execution.error_transport import wrapped
from ...execution.gc_tuning import rarely_collected, set_modules_aside
from ...execution.operators.traffic import WorkerTraffic
from ...execution.page.profiles import profiled
from ...execution.plan.fusion import Grouping, Keyed, Plan, Source
from ...execution.plan.segments import Segment, Stored
from ...execution.shuffle.blocks import decode_bundle
from ...execution.shuffle.reader import BlockSpool
from ...execution.stages.side_input_views import SideInputViews
from ...execution.stages.traffic import Traffic
from ...execution.stuck_calls import CallWatch
from ...execution.user_errors import as_exception
from ..attempts import TaskAttempt, all_read, in_parts, joined
from ..dataframes import FrameOutput, Pack
from ..executor_functions import ExecutorFunction

# A row of a segment's output: its destination, a number in it, and bytes.  Besides the destinations of blocks there are
# ("sink", label), for tokens, and ("frame", label), for rows of DataFrames.
Row = tuple[Destination, int, bytes]

# A row with its position among all rows of its destination.  Besides, there are rows of `TaskAttempt`s, the last ones
# of a task: one for each reader, and one for the driver, with this destination.
ShuffleRow = tuple[Destination, int, int, bytes]
ATTEMPT: Destination = ("attempt", None)

# A row as it is read: its number, its position, and bytes.
ReadRow = tuple[int, int, bytes]

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


def is_attempt(position: int) -> bool:
    """Return True for the row of an attempt."""
    return not position & ((1 << ROW_BITS) - 1)


@attrs.define
class TaskTraffic:
    """What a task, or several, have read and sent.

    Attributes:
      shuffles: by the label of the grouping or ParDo with state, what was read from the blocks of its shuffle.
      edges: by PCollection, what was sent to be stored and as side inputs; if the run has a page, also what has passed
        the other edges.
    """

    shuffles: dict[str, Traffic] = attrs.field(factory=dict)
    edges: dict[int, Traffic] = attrs.field(factory=dict)

    def add(self, other: TaskTraffic) -> None:
        """Add the traffic of another task.

        >>> total, other = TaskTraffic({"Sum": Traffic(2, 20)}), TaskTraffic({"Sum": Traffic(1, 10)})
        >>> total.add(other)
        >>> total.shuffles
        {'Sum': Traffic(elements=3, size=30, estimates=())}
        """
        for label, own in other.shuffles.items():
            self.shuffles[label] = self.shuffles.get(label, Traffic(0, 0)).plus(own)
        for pcollection, own in other.edges.items():
            self.edges[pcollection] = self.edges.get(pcollection, Traffic(0, 0)).plus(own)


class TaskReport(NamedTuple):
    """What a task has counted.

    Attributes:
      stacks: how often each stack was seen, if the run has a page.
      traffic: what it has read and sent.
    """

    metrics: MetricsContainer
    counts: Counts
    stacks: Mapping[str, int]
    traffic: TaskTraffic


# By segment and partition.
Reports = dict[tuple[int, int], TaskReport]


class PartitionFunction(ExecutorFunction):
    """The work of a segment on a partition of its input.

    Args:
      transaction: the transaction of the run's sinks.
      number: the number of the segment.
      groups: the number of key groups.
      readers: the number of readers of each shuffle: each needs the attempts of all tasks that send to it.
      packs: by the labels of DataFrame sinks, the functions that pack their rows.
      timeout: seconds after which a call that has not returned is named in the worker's log.
      has_page: whether the stacks of the steps and the traffic of all edges are reported.

    Raises `SerializationError` if a part of the segment can't be pickled.
    """

    def __init__(
        self,
        plan: Plan,
        segment: Segment,
        transaction: str,
        number: int,
        groups: int,
        readers: int,
        packs: Mapping[str, Pack],
        timeout: float,
        has_page: bool,
    ) -> None:
        # A task needs only the groupings that the segment sends to, and the registered coders of keys.
        targets = tuple(t for t in plan.graph.transforms if t.label in segment.groupings)
        needed = Plan((), graph.Graph(targets, plan.graph.pcollections))
        self._payload = dumps((needed, segment, registry.registered(), packs), segment.label)
        self._transaction = transaction
        self._number = number
        self._groups = groups
        self._readers = readers
        self._timeout = timeout
        self._has_page = has_page

    def run(
        self, partition: int, rows: Iterable[Any], side_inputs: Mapping[int, Iterable[bytes]], reports: Reports
    ) -> Iterator[ShuffleRow]:
        """Yield the rows that the segment outputs for a partition, and add its report at the end.

        Args:
          rows: the rows of the partition: pickled splits, or `ReadRow`s.
          side_inputs: the blocks of the segment's side inputs.
        """
        set_modules_aside()
        container, counts, stacks = MetricsContainer(), Counts(), Counter[str]()
        traffic = TaskTraffic()
        # Each attempt derives the same from it.
        task = task_named(f"{self._transaction}/{self._number}/{partition}")
        try:
            scope = scoped(container, seconds=counts.seconds)
            profile = profiled(stacks) if self._has_page else nullcontext()
            with scope, task, rarely_collected(), CallWatch(self._timeout), profile:
                plan, segment, coders, packs = cloudpickle.loads(self._payload)
                registry.register_all(coders)
                views = SideInputViews()
                for pcollection, own in side_inputs.items():
                    for block in own:
                        views.add(pcollection, decode_bundle(block))
                # Each attempt writes under another name.
                unit = f"{partition}-{uuid.uuid4().hex[:8]}"
                arguments = views, self._transaction, unit, counts, container, self._groups
                busy = BusyTime(counts, segment.label, partition)
                read: list[TaskAttempt] = []
                if not isinstance(segment.root, Source):
                    rows = _without_attempts(rows, read)
                digest = _Digest()
                made = rows_of(plan, segment, rows, *arguments, packs, traffic, self._has_page)
                for number, (destination, group, block) in enumerate(made, 1):
                    busy.add()
                    digest.add(destination, group, block)
                    yield destination, group, position_of(self._number, partition, number), block
                    busy.begin()
                busy.add()
                # What was written to a sink is in no block.
                is_written = any(label not in packs for label in segment.sinks)
                token = uuid.uuid4().bytes if is_written else digest.result()
                yield from self._attempts(segment, partition, token, read, packs)
        except GeneratorExit:
            # Spark needs no more rows.
            raise
        except BaseException as error:
            raise wrapped(as_exception(error)) from None
        reports[self._number, partition] = TaskReport(container, counts, dict(stacks), traffic)

    def _attempts(
        self, segment: Segment, partition: int, token: bytes, read: list[TaskAttempt], packs: Mapping[str, Pack]
    ) -> Iterator[ShuffleRow]:
        """Yield the rows of the task's attempt, for the driver and for all readers of its output."""
        if isinstance(segment.root, Stored):
            of_all, parts = joined(each.read for each in read), in_parts(read)
        else:
            of_all, parts = all_read(read), ()
        attempt = pickle.dumps(TaskAttempt(self._number, partition, token, of_all, parts), protocol=5)
        position = position_of(self._number, partition, 0)
        to_one: list[Destination] = [("stored", pcollection) for pcollection in segment.stores]
        to_one += [("frame", label) for label in packs]
        for destination in (ATTEMPT, *to_one):
            yield destination, 0, position, attempt
        for label in segment.groupings:
            for reader in range(self._readers):
                yield ("grouping", label), reader, position, attempt


class _Digest:
    """The hash of what a task has sent."""

    def __init__(self) -> None:
        # Of those that are safe, the one that processors have instructions for.
        self._hash = sha256()

    def add(self, destination: Destination, group: int, block: bytes) -> None:
        self._hash.update(f"{destination}{group}:{len(block)}:".encode())
        self._hash.update(block)

    def result(self) -> bytes:
        return self._hash.digest()


def _without_attempts(rows: Iterable[ReadRow], read: list[TaskAttempt]) -> Iterator[ReadRow]:
    """Yield the rows of blocks, and add those of attempts to `read`."""
    for row in rows:
        if is_attempt(row[1]):
            read.append(pickle.loads(row[2]))
        else:
            yield row


def rows_of(
    plan: Plan,
    segment: Segment,
    rows: Iterable[Any],
    views: SideInputViews,
    transaction: str,
    unit: str,
    counts: Counts,
    metrics: MetricsContainer,
    groups: int,
    packs: Mapping[str, Pack],
    traffic: TaskTraffic,
    counts_all: bool = False,
) -> Iterator[Row]:
    """Run a segment on one partition, and yield its output.

    Args:
      rows: the rows of the partition: pickled splits, or `ReadRow`s of blocks.
      groups: the number of key groups.
      packs: by the labels of DataFrame sinks, the functions that pack their rows.
      traffic: receives at the end what has passed where elements are encoded.
      counts_all: True if it receives also what has passed the other edges.
    """
    output: list[Row] = []

    def send(destination: Destination, number: int, block: bytes) -> None:
        output.append((destination, number, block))

    def take() -> list[Row]:
        taken, output[:] = list(output), []
        return taken

    frames = {
        label: FrameOutput(label, pack, partial(send, ("frame", label), 0), counts) for label, pack in packs.items()
    }
    task = SegmentTask(
        plan, [segment], steps_of(segment), views, transaction, unit, counts, metrics, send, groups, frames
    )
    received = 0

    def measured(rows: Iterable[Any]) -> Iterator[Any]:
        nonlocal received
        for row in rows:
            received += len(row[2])
            yield row

    sampler = task.sampled([segment], WorkerTraffic()) if counts_all else None
    try:
        root = segment.root
        is_shuffled = isinstance(root, (Grouping, Keyed))
        for _ in task.run(segment, _partition(segment, measured(rows) if is_shuffled else rows)):
            yield from take()
        for _ in task.finish():
            yield from take()
        yield from take()
        for label, token in task.stage():
            yield ("sink", label), 0, dumps(token, label)
        if sampler is not None:
            traffic.edges |= sampler.traffic.traffic()
        traffic.edges |= task.sent
        if isinstance(root, (Grouping, Keyed)):
            label = root.transform.label
            traffic.shuffles[label] = Traffic(counts.of(label).read, received)
    except BaseException:
        task.discard()
        raise


def _partition(segment: Segment, rows: Iterable[Any]) -> Iterable[Any]:
    """Return the rows of a partition as `SegmentTask.run` takes them."""
    if isinstance(segment.root, Source):
        return map(cloudpickle.loads, rows)
    if not isinstance(segment.root, (Grouping, Keyed)):
        stored: KeyGroups = [(0, (block for _, _, block in rows))]
        return stored
    spool = BlockSpool()
    for group, position, block in rows:
        spool.add(group, position, block)
    return spool.groups()


def pickled_split(block: Block) -> bytes:
    """Return a block of a DataFrame's rows as a split."""
    return pickle.dumps(block, protocol=5)
