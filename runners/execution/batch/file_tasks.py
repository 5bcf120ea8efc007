"""Tasks of a bounded plan that shuffle through files.

A task reads splits of a source, or partitions of a shuffle, and writes its blocks to a file.  It can run again in any
worker: its file and its sinks' output bear the name of the attempt, and count only when the task is complete.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from ....frozen import frozen
from ....sdk.metrics import MetricsContainer, scoped
from ..counters import BusyTime, Counts
from ..gc_tuning import rarely_collected
from ..plan.segments import Segment
from ..shuffle.blocks import decode_bundle
from ..stages.side_input_views import SideInputViews
from .bounded_program import BoundedProgram
from .segment_program import SegmentProgram
from .segment_task import Destination, SegmentTask, pace_of_tasks
from .shuffle_files import BlockFile, BlockFileWriter, FilePart, read_key_groups

# By side input, the parts of files that contain it.
SideInputs = Mapping[int, Sequence[FilePart]]


@frozen(eq=False, slots=False)
class PartitionedProgram:
    """The program that tasks run, with the splits of its sources.

    Attributes:
      splits: of each segment whose root is a source, by the segment's number; in parts that a task reads.
      directory: the directory of the tasks' block files.
    """

    program: BoundedProgram
    splits: Mapping[int, Sequence[Sequence[Any]]]
    directory: str


@frozen
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
    program: PartitionedProgram,
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
    segment = SegmentProgram.of(program.program, number)
    counts, metrics = Counts(), MetricsContainer()
    busy = BusyTime(counts, segment.segment.label, subtask)
    staged: list[tuple[str, bytes]] = []
    writer = BlockFileWriter(os.path.join(program.directory, attempt), segment.partitions)

    def send(destination: Destination, group: int, block: bytes) -> None:
        if destination[0] == "sink":
            staged.append((destination[1], block))
        else:
            writer.send(destination, group, block)

    def partitions() -> Iterator[Any]:
        busy.add()
        while (partition := next_partition()) is not None:
            busy.begin()
            yield _read(program, number, partition)
            busy.add()
        busy.begin()

    with scoped(metrics, seconds=counts.seconds), rarely_collected():
        task = segment.task(views, attempt, counts, metrics, send, cut=pace_of_tasks().parts)
        if watch is not None:
            watch.begin(task, [segment.segment], counts, metrics)
        try:
            for _ in segment.run(task, partitions(), send):
                busy.add()
                if watch is not None:
                    watch.pause()
        except BaseException:
            writer.close()
            raise
    blocks = writer.close()
    busy.add()
    return CompletedTask(number, blocks, staged, counts, metrics)


def _read(program: PartitionedProgram, number: int, partition: Any) -> Any:
    if program.program.is_source(number):
        return program.splits[number][partition]
    return read_key_groups(partition)


class ShuffledFiles:
    """The files of complete tasks that later segments are to read."""

    def __init__(self, program: PartitionedProgram) -> None:
        self._program = program.program
        self._splits = program.splits
        self._files: list[list[BlockFile]] = [[] for _ in self._program.segments]
        self._needs = [sorted(needs) for needs in self._program.needs]
        # By segment, the number of segments that are to read its files.
        self._readers = Counter(number for needs in self._needs for number in needs)

    def add(self, task: CompletedTask) -> None:
        """Add the file of a complete task."""
        self._files[task.segment].append(task.blocks)

    def partitions_of(self, number: int) -> list[Any]:
        """Return the partitions of a segment's input that are not empty: numbers of splits, or parts of files."""
        if self._program.is_source(number):
            return list(range(len(self._splits[number])))
        destination, senders = self._program.senders(number)
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
