"""Tasks of a bounded plan that shuffle through files.

A task reads splits of a source, or partitions of a shuffle, and writes its blocks to a file.  It can run again in any
worker: its file and its sinks' output bear the name of the attempt, and count only when the task is complete.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import compress
from typing import Any, Protocol

import attrs

from ....sdk.metrics import MetricsContainer, scoped
from ....sdk.user_code.serialization import dumps
from ..counters import BusyTime, Counts
from ..gc_tuning import rarely_collected
from ..plan.fusion import Plan, Source
from ..plan.segments import Segment, Stored, dependencies
from ..shuffle.blocks import decode_bundle
from ..stages.side_input_views import SideInputViews
from .segment_task import Destination, SegmentTask, key_groups_for, pace_of_tasks, steps_of
from .shuffle_files import BlockFile, BlockFileWriter, FilePart, read_key_groups

# By side input, the parts of files that contain it.
SideInputs = Mapping[int, Sequence[FilePart]]


@attrs.frozen(eq=False, slots=False)
class PartitionedPlan:
    """The plan that tasks run, with the splits and partitions of their inputs.

    Attributes:
      splits: of each segment whose root is a source, by the segment's number; in parts that a task reads.
      partitions: the number of partitions of a shuffle.
      directory: the directory of the tasks' block files.
      transaction: the run's, for its sinks.
    """

    plan: Plan
    segments: tuple[Segment, ...]
    splits: Mapping[int, Sequence[Sequence[Any]]]
    partitions: int
    directory: str
    transaction: str

    @cached_property
    def groups(self) -> int:
        """Return the number of key groups."""
        return key_groups_for(self.partitions)


@attrs.frozen
class CompletedTask:
    """The result of a complete task.

    Attributes:
      segment: the number of its segment.
      staged: labels of sinks with the tokens of their staged output, pickled.
    """

    segment: int
    blocks: BlockFile
    staged: Sequence[tuple[str, bytes]]
    counts: Counts
    metrics: MetricsContainer


class CollectedViews:
    """A worker's views of side inputs, each of which is read once."""

    def __init__(self) -> None:
        self.views = SideInputViews()
        self._known: set[int] = set()

    def read(self, side_inputs: SideInputs) -> SideInputViews:
        """Read the side inputs that are not known yet; return the views."""
        for pcollection, parts in side_inputs.items():
            if pcollection not in self._known:
                self._known.add(pcollection)
                for _, blocks in read_key_groups(parts):
                    for block in blocks:
                        self.views.add(pcollection, decode_bundle(block))
        return self.views


class TaskWatch(Protocol):
    """Looks at a task while it runs, on its thread."""

    def begin(
        self, task: SegmentTask, segments: Sequence[Segment], counts: Counts, metrics: MetricsContainer, /
    ) -> None:
        """Look at a task, which counts there, from now on."""

    def pause(self) -> None:
        """Called regularly."""


def run_task(
    program: PartitionedPlan,
    number: int,
    attempt: str,
    views: SideInputViews,
    next_partition: Callable[[], Any],
    watch: TaskWatch | None = None,
    subtask: int = 0,
) -> CompletedTask:
    """Run a segment on the partitions that `next_partition` returns, until it returns None.

    Args:
      number: the segment's.
      attempt: the unique name of this attempt.
      watch: looks at the task while it runs.
      subtask: the number of the worker.
    """
    segment = program.segments[number]
    counts, metrics = Counts(), MetricsContainer()
    busy = BusyTime(counts, segment.label, subtask)

    def pause() -> None:
        busy.add()
        if watch is not None:
            watch.pause()

    writer = BlockFileWriter(os.path.join(program.directory, attempt), program.partitions)
    with scoped(metrics, seconds=counts.seconds), rarely_collected():
        task = SegmentTask(
            program.plan,
            [segment],
            steps_of(segment),
            views,
            program.transaction,
            attempt,
            counts,
            metrics,
            writer.send,
            program.groups,
            pace=pace_of_tasks(),
        )
        if watch is not None:
            watch.begin(task, [segment], counts, metrics)
        try:
            while True:
                busy.add()
                partition = next_partition()
                busy.begin()
                if partition is None:
                    break
                for _ in task.run(segment, _read(program, number, partition)):
                    pause()
            for _ in task.finish():
                pause()
            staged = [(label, dumps(token, label)) for label, token in task.stage()]
        except BaseException:
            task.discard()
            writer.close()
            raise
    blocks = writer.close()
    busy.add()
    return CompletedTask(number, blocks, staged, counts, metrics)


def _read(program: PartitionedPlan, number: int, partition: Any) -> Any:
    if isinstance(program.segments[number].root, Source):
        return program.splits[number][partition]
    return read_key_groups(partition)


class ShuffledFiles:
    """The files of complete tasks that later segments are to read."""

    def __init__(self, program: PartitionedPlan) -> None:
        self._program = program
        self._files: list[list[BlockFile]] = [[] for _ in program.segments]
        self._needs = [sorted(needs) for needs in dependencies(program.segments)]
        # By segment, the number of segments that are to read its files.
        self._readers = Counter(number for needs in self._needs for number in needs)

    def add(self, task: CompletedTask) -> None:
        """Add the file of a complete task."""
        self._files[task.segment].append(task.blocks)

    def partitions_of(self, number: int) -> list[Any]:
        """Return the partitions of a segment's input that are not empty: numbers of splits, or parts of files."""
        root = self._program.segments[number].root
        if isinstance(root, Source):
            return list(range(len(self._program.splits[number])))
        makers = [self._program.segments[n] for n in self._needs[number]]
        if isinstance(root, Stored):
            destination: Destination = ("stored", root.pcollection)
            sends = [root.stage.label in maker.stores_for for maker in makers]
        else:
            destination = ("grouping", root.transform.label)
            sends = [root.transform.label in maker.groupings for maker in makers]
        senders = list(compress(self._needs[number], sends))
        found = [self._parts(senders, destination, partition) for partition in range(self._program.partitions)]
        return [parts for parts in found if parts]

    def side_inputs_of(self, number: int) -> SideInputs:
        """Return the side inputs that a segment needs."""
        makers, partitions = self._needs[number], range(self._program.partitions)
        return {
            i: [part for partition in partitions for part in self._parts(makers, ("side", i), partition)]
            for i in sorted(self._program.segments[number].side_inputs)
        }

    def _parts(self, makers: Iterable[int], destination: Destination, partition: int) -> list[FilePart]:
        files = (file for number in makers for file in self._files[number])
        return [part for file in files if (part := file.part(destination, partition)) is not None]

    def remove_after(self, number: int) -> None:
        """Remove the files that no other segment reads, after a segment is complete."""
        self._readers.subtract(self._needs[number])
        for maker in (*self._needs[number], number):
            if self._readers[maker] <= 0:
                for file in self._files[maker]:
                    with suppress(FileNotFoundError):
                        os.remove(file.path)
                self._files[maker] = []
