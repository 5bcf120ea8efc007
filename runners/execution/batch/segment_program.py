"""Segment programs: what the tasks of a segment run, in any process, for any scheduler."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
import cloudpickle

from ....frozen import frozen
from ....sdk import graph
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.process.carried_settings import CarriedSettings
from ....sdk.process.task_name import task_named
from ....sdk.user_code.serialization import dumps, local_modules_by_value
from ..counters import BusyTime, Counts
from ..error_transport import wrapped
from ..gc_tuning import rarely_collected, set_modules_aside
from ..operators.dataflow import Cut, uncut
from ..operators.traffic import WorkerTraffic
from ..plan.fusion import Grouping, Keyed, Plan, Source
from ..plan.segments import Segment
from ..shuffle.blocks import decode_bundle
from ..shuffle.reader import BlockSpool
from ..stages.side_input_views import SideInputViews
from ..stages.traffic import Traffic
from ..stuck_calls import CallWatch
from ..user_errors import as_exception, guarded
from .attempts import OutputDigest, TaskAttempt, all_read, in_parts, joined
from .bounded_program import BoundedProgram, source_of, splits_of
from .segment_task import Destination, KeyGroups, SegmentTask, Send, SinkOutput, steps_of

# What a task makes: a destination, a number in it, and bytes.  Besides the destinations of blocks, whose number is
# their key group, there are ("sink", label), for tokens of staged output, pickled.
Row: TypeAlias = tuple[Destination, int, bytes]

# A block as it is read: its key group, what decides the order of a group's blocks, and bytes.
ReadRow: TypeAlias = tuple[int, Any, bytes]

# Returns by label the receivers of sinks that a task doesn't write to itself.
OtherSinks: TypeAlias = Callable[[Send, Counts], Mapping[str, SinkOutput]]

# The bytes that a task sends together, about: it holds them until its scheduler takes them.
TOGETHER = 32 << 20


class SentBytes:
    """Cuts bundles so that what is sent of one part has a bounded size, however large values become.

    The first part is one element, since a Map may make megabytes of it.

    Args:
      limit: the bytes, about.

    Attributes:
      bytes: what was sent, to be counted by the sender.

    >>> sent, parts = SentBytes(1_000), []
    >>> for part in sent.parts(Bundle(list(range(20)))):
    ...     parts.append(len(part))
    ...     sent.bytes += 200 * len(part)
    >>> parts
    [1, 4, 5, 5, 5]
    """

    def __init__(self, limit: int) -> None:
        self.bytes = 0
        self._limit = limit
        self._count = 1

    def parts(self, bundle: Bundle) -> Iterator[Bundle]:
        """Yield a bundle in parts, each of which is sent before the next is asked for.

        A bundle of columns isn't divided: its elements are processed together.
        """
        if type(bundle) is not Bundle:
            yield bundle
            return
        start, n = 0, len(bundle)
        while start < n:
            stop, before = min(n, start + self._count), self.bytes
            yield bundle if stop - start == n else bundle.part(start, stop)
            size = (self.bytes - before) / (stop - start)
            self._count = max(1, int(min(4 * self._count, self._limit / size if size else BUNDLE_SIZE)))
            start = stop


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
    stacks: Counter[str]
    traffic: TaskTraffic

    @classmethod
    def empty(cls) -> TaskReport:
        """Return the report of a task that hasn't begun."""
        return cls(MetricsContainer(), Counts(), Counter(), TaskTraffic())


@frozen
class TaskPart:
    """What one task has sent to one reader.

    Attributes:
      attempt: the execution that has sent it.
      blocks: each with its key group, in the order in which they were sent.
    """

    attempt: TaskAttempt
    blocks: Sequence[tuple[int, bytes]] = ()


@frozen
class TaskOutput:
    """What a task has made.

    Attributes:
      staged: the label of each sink that it has written to, with a token of the staged output, pickled.
    """

    attempt: TaskAttempt
    report: TaskReport
    staged: Sequence[tuple[str, bytes]]
    _blocks: Mapping[Destination, Mapping[int, Sequence[tuple[int, bytes]]]]

    def part(self, destination: Destination, partition: int | None = None) -> TaskPart:
        """Return what was sent to a destination: to one partition of it, or all."""
        partitions = self._blocks.get(destination, {})
        if partition is not None:
            return TaskPart(self.attempt, partitions.get(partition, ()))
        return TaskPart(self.attempt, [block for blocks in partitions.values() for block in blocks])

    def side_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks of side inputs, in the order in which they were sent, each with its PCollection."""
        for (kind, pcollection), partitions in self._blocks.items():
            if kind == "side":
                sent = sorted((number, block) for blocks in partitions.values() for number, block in blocks)
                yield from ((pcollection, block) for _, block in sent)

    def of_driver(self) -> TaskOutput:
        """Return it without the blocks that other tasks read."""
        side = {where: partitions for where, partitions in self._blocks.items() if where[0] == "side"}
        return attrs.evolve(self, blocks=side)


class SegmentProgram:
    """The program of a segment: what its tasks run, each on a partition of the segment's input.

    A scheduler pickles it, and calls `compute` with each partition, in whatever process.  Functions of users go along
    by value where the worker can't import them, as do the registered coders of keys.

    Args:
      plan: the plan of the run.
      number: the number of the segment in the run.
      transaction: the transaction of the run's sinks.
      partitions: the number of partitions of each shuffle.
      groups: the number of key groups, a multiple of it.

    Raises `SerializationError`, when it is pickled, naming the segment, if a part of it can't be.
    """

    def __init__(
        self, plan: Plan, segment: Segment, number: int, transaction: str, partitions: int, groups: int
    ) -> None:
        self.segment = segment
        self.number = number
        self.partitions = partitions
        self._plan = plan
        self._transaction = transaction
        self._groups = groups

    def __reduce__(self) -> tuple[Callable[[bytes], SegmentProgram], tuple[bytes]]:
        # A task needs only the groupings that the segment sends to, and the registered coders of keys.
        targets = tuple(t for t in self._plan.graph.transforms if t.label in self.segment.groupings)
        needed = Plan((), graph.Graph(targets, self._plan.graph.pcollections))
        arguments = needed, self.segment, self.number, self._transaction, self.partitions, self._groups
        return _unpickled, (dumps((arguments, CarriedSettings.of_this_process()), self.segment.label),)

    @classmethod
    def of(cls, program: BoundedProgram, number: int) -> SegmentProgram:
        """Return the program of a segment."""
        segment = program.segments[number]
        return cls(program.plan, segment, number, program.transaction, program.partitions, program.groups)

    # For schedulers of others

    def split(self, desired: Callable[[int], int]) -> list[bytes]:
        """Return the splits of the segment's source, pickled.  A partition has one or several of them.

        Args:
          desired: returns how many there should be, given the estimated bytes of the source, which are 0 if it can't
            tell.  A segment whose splits have to be read in their order has one.
        """
        label, source = source_of(self.segment)
        wanted = 1 if self.is_of_one_task else desired(guarded(label, source.estimate_size) or 0)
        splits = splits_of(self.segment, wanted)
        with local_modules_by_value():
            return [dumps(split, label) for split in splits]

    @property
    def is_of_one_task(self) -> bool:
        """True if one task has to read all splits of the source, in their order."""
        return self.segment.is_of_one_task

    def compute(
        self,
        partition: int,
        read: Sequence[Any],
        side_inputs: Mapping[int, Iterable[bytes]],
        timeout: float = 10.0,
    ) -> TaskOutput:
        """Run a task to its end, and return its output.

        Args:
          partition: the number of the partition.
          read: the partition: pickled splits of a source, or `TaskPart`s in the order of their senders.
          side_inputs: the blocks of the segment's side inputs, by PCollection.
          timeout: seconds after which a call that has not returned is named in the log.

        Raises the error of the user's code in a form that every process can unpickle; `original_of` returns it.  What
        the task has written to sinks is removed then.
        """
        blocks: dict[Destination, dict[int, list[tuple[int, bytes]]]] = {}
        staged: list[tuple[str, bytes]] = []
        report, digest = TaskReport.empty(), OutputDigest()
        attempts = [each.attempt for each in read if isinstance(each, TaskPart)]
        set_modules_aside()
        try:
            with CallWatch(timeout):
                rows = self.rows(partition, _rows_of(read), decoded(side_inputs), report)
                for destination, number, block in rows:
                    digest.add(destination, number, block)
                    if destination[0] == "sink":
                        staged.append((destination[1], block))
                    else:
                        of_destination = blocks.setdefault(destination, {})
                        of_destination.setdefault(number % self.partitions, []).append((number, block))
        except BaseException as error:
            raise wrapped(as_exception(error)) from None
        return TaskOutput(self.attempt(partition, digest, attempts), report, staged, blocks)

    # For all

    def rows(
        self,
        partition: int,
        read: Iterable[Any],
        views: SideInputViews,
        report: TaskReport,
        other_sinks: OtherSinks | None = None,
        counts_all: bool = False,
    ) -> Iterator[Row]:
        """Run a task, and yield what it makes as it is made.

        Args:
          partition: the number of the partition.
          read: the partition: pickled splits, or `ReadRow`s.
          views: the segment's side inputs.
          report: what the task counts is added to it.
          counts_all: True if the report has also what has passed the edges within the segment.
        """
        output: list[Row] = []
        sent = SentBytes(TOGETHER)

        def send(destination: Destination, number: int, block: bytes) -> None:
            sent.bytes += len(block)
            output.append((destination, number, block))

        def take() -> list[Row]:
            taken, output[:] = list(output), []
            return taken

        received = 0

        def measured(rows: Iterable[ReadRow]) -> Iterator[ReadRow]:
            nonlocal received
            for row in rows:
                received += len(row[2])
                yield row

        root, counts = self.segment.root, report.counts
        label = root.transform.label if isinstance(root, (Grouping, Keyed)) else None
        busy = BusyTime(counts, self.segment.label, partition)
        # Each attempt derives the same from it.
        name = task_named(f"{self._transaction}/{self.number}/{partition}")
        with scoped(report.metrics, seconds=counts.seconds), name, rarely_collected():
            # Each attempt writes under another name.
            unit = f"{partition}-{uuid.uuid4().hex[:8]}"
            sinks = {} if other_sinks is None else other_sinks(send, counts)
            task = self.task(views, unit, counts, report.metrics, send, sinks, sent.parts)
            sampler = task.sampled([self.segment], WorkerTraffic()) if counts_all else None
            rows = read if label is None else measured(read)
            for _ in self.run(task, [self._partition(rows)], send):
                for row in take():
                    busy.add()
                    yield row
                    busy.begin()
            for row in take():
                busy.add()
                yield row
                busy.begin()
            busy.add()
        if sampler is not None:
            report.traffic.edges |= sampler.traffic.traffic()
        report.traffic.edges |= task.sent
        if label is not None:
            report.traffic.shuffles[label] = Traffic(counts.of(label).read, received)

    def _partition(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Return the rows of a partition as `SegmentTask.run` takes them."""
        root = self.segment.root
        if isinstance(root, Source):
            return map(cloudpickle.loads, rows)
        if not isinstance(root, (Grouping, Keyed)):
            stored: KeyGroups = [(0, (block for _, _, block in rows))]
            return stored
        spool = BlockSpool()
        for group, position, block in rows:
            spool.add(group, position, block)
        return spool.groups()

    def task(
        self,
        views: SideInputViews,
        unit: str,
        counts: Counts,
        metrics: MetricsContainer,
        send: Send,
        sinks: Mapping[str, SinkOutput] | None = None,
        cut: Cut = uncut,
    ) -> SegmentTask:
        """Return a task of the segment; see `SegmentTask` for the arguments."""
        return SegmentTask(
            self._plan,
            [self.segment],
            steps_of(self.segment),
            views,
            self._transaction,
            unit,
            counts,
            metrics,
            send,
            self._groups,
            sinks,
            cut,
        )

    def run(self, task: SegmentTask, partitions: Iterable[Any], send: Send) -> Iterator[None]:
        """Run a task on partitions to its end, pausing regularly.  If it fails, what it has written is removed.

        Args:
          partitions: splits of a source, or `KeyGroups`, of each partition.
          send: receives the tokens of what is staged, with the destinations ("sink", label).
        """
        try:
            for partition in partitions:
                yield from task.run(self.segment, partition)
            yield from task.finish()
            for label, token in task.stage():
                send(("sink", label), 0, dumps(token, label))
        except BaseException:
            task.discard()
            raise

    def attempt(
        self, partition: int, digest: OutputDigest, read: Sequence[TaskAttempt], other_sinks: Iterable[str] = ()
    ) -> TaskAttempt:
        """Return the attempt of a task that has read these attempts, and whose output has this digest.

        Args:
          other_sinks: labels of the sinks whose rows are in the digest.
        """
        # What was written to a sink is in no block.
        is_written = any(label not in other_sinks for label in self.segment.sinks)
        token = uuid.uuid4().bytes if is_written else digest.result()
        if isinstance(self.segment.root, (Grouping, Keyed, Source)):
            return TaskAttempt(self.number, partition, token, all_read(read))
        return TaskAttempt(self.number, partition, token, joined(each.read for each in read), in_parts(read))


def decoded(side_inputs: Mapping[int, Iterable[bytes]]) -> SideInputViews:
    """Return the views of side inputs.

    Args:
      side_inputs: their blocks, by PCollection.
    """
    views = SideInputViews()
    for pcollection, own in side_inputs.items():
        for block in own:
            views.add(pcollection, decode_bundle(block))
    return views


def _unpickled(data: bytes) -> SegmentProgram:
    arguments, settings = cloudpickle.loads(data)
    settings.apply()
    return SegmentProgram(*arguments)


def _rows_of(read: Sequence[Any]) -> Iterator[Any]:
    """Yield what a task is given as `SegmentProgram.rows` takes it."""
    for position, each in enumerate(read):
        if isinstance(each, TaskPart):
            yield from ((group, (position, row), block) for row, (group, block) in enumerate(each.blocks))
        else:
            yield each
