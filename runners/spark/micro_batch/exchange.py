"""The messages of a micro-batch's shuffles.

The tasks of a batch run in one Spark job, one after the other, with a shuffle between them.  Each subtask sends its
elements and watermarks to the subtasks of later tasks, and its result to the driver.  Spark's shuffle leads from a task
to the next one only: a message for a task further on, or for the driver, is forwarded by every task in between.  So
the results come out of the last task, and nothing is computed twice.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, TypeAlias

import attrs

from ....frozen import frozen
from ....sdk.elements.bundle import Bundle
from ....sdk.metrics import MetricsContainer
from ...execution.checkpoints.manifest import PartReference
from ...execution.counters import Counts
from ...execution.plan.execution_graph import Edge, EdgeKind, SubtaskId
from ...execution.shuffle.blocks import encode_bundle
from ...execution.shuffle.partitioner import Partitioner
from ...execution.shuffle.pre_aggregation import PreAggregation
from ...execution.shuffle.reader import BlockSpool
from ...execution.streaming.observation import Observed
from ...execution.user_errors import guarded

# The size, in bytes of blocks, at which a message is sent.
MESSAGE_BYTES = 8 << 20

# A record of Spark's shuffle: the index of the receiving subtask, and an addressed message.
Row: TypeAlias = tuple[int, bytes]

Buffer: TypeAlias = bytes | memoryview

_TASK = struct.Struct("<i")
_EDGE = struct.Struct("<i")


def address(task: int, data: bytes) -> bytes:
    """Return data with the number of the receiving task in front; the driver has the number after the last task's.

    >>> task, data = addressed(address(2, b"message"))
    >>> task, bytes(data)
    (2, b'message')
    """
    return _TASK.pack(task) + data


def addressed(row: bytes) -> tuple[int, Buffer]:
    """Return the number of the receiving task and the data."""
    return _TASK.unpack_from(row)[0], memoryview(row)[_TASK.size :]


class ShuffleMessage(NamedTuple):
    """Elements and watermarks from one subtask to another.

    Attributes:
      attempt: the attempt of the sender that wrote the message.
      number: the index among the messages between these two subtasks.
      blocks: encoded bundles, in the order in which they were sent, each with its index and its edge's number.
      watermarks: by edge, in microseconds; in the last message only.
    """

    source: SubtaskId
    attempt: str
    number: int
    blocks: list[tuple[int, int, bytes]]
    watermarks: Mapping[int, int] | None


@attrs.define
class SubtaskSeconds:
    """The time that a subtask spends on a batch, in seconds of elapsed time.

    Attributes:
      loading: restoring its state, if its worker didn't have it.
      working: receiving, processing and sending elements.
      saving: writing its state.
    """

    loading: float = 0.0
    working: float = 0.0
    saving: float = 0.0


@frozen
class SubtaskResult:
    """The result of one subtask's part of a batch.

    Attributes:
      consumed: the attempts whose messages it received, by sender.
      part: its state; None if it keeps none.
      labels: the steps that have state in the part.
      staged: the tokens of its sinks, pickled, by label.
      next_time: the next processing-time timer, in microseconds.
      next_event_times: the next event-time timer of each step.
      is_complete: whether it will produce no more output.
      loaded: whether it had to restore its state.
      newest: the greatest event time read from each streaming DataFrame, by label.
      observed: for a page; None while none is open.
      kept: by the label of a step with windows or keyed state, how many windows or cells there are.
    """

    id: SubtaskId
    attempt: str
    consumed: Mapping[SubtaskId, str]
    part: PartReference | None
    labels: tuple[str, ...]
    staged: Mapping[str, list[bytes]]
    metrics: MetricsContainer
    counts: Counts
    next_time: int | None
    next_event_times: Set[int]
    is_complete: bool
    loaded: bool = False
    seconds: SubtaskSeconds = attrs.field(factory=SubtaskSeconds)
    newest: Mapping[str, int] = attrs.field(factory=dict)
    observed: Observed | None = None
    kept: Mapping[str, int] = attrs.field(factory=dict)


class ReceivedMessages:
    """The messages that a subtask has received, in any order; their blocks are spilled to disk beyond a limit.

    Args:
      side_edges: the numbers of the edges of side inputs.

    Attributes:
      attempts: by sender, the attempt whose messages were received.
      watermarks: by edge, those of its senders.

    >>> received = ReceivedMessages({2})
    >>> for number, blocks in [(2, [(3, 1, b"c")]), (1, [(1, 2, b"a"), (2, 1, b"b")])]:
    ...     received.add(ShuffleMessage(SubtaskId(0, 0), "attempt", number, blocks, None))
    >>> [(edge, bytes(block)) for edge, block in received.blocks(of_side_inputs=True)]
    [(2, b'a')]
    >>> [(edge, bytes(block)) for edge, block in received.blocks(of_side_inputs=False)]
    [(1, b'b'), (1, b'c')]
    """

    def __init__(self, side_edges: Set[int]) -> None:
        self._side_edges = side_edges
        self._spool = BlockSpool()
        self.attempts: dict[SubtaskId, str] = {}
        self.watermarks: dict[int, list[int]] = {}

    def add(self, message: ShuffleMessage) -> None:
        """Add a message."""
        self.attempts[message.source] = message.attempt
        for index, edge, block in message.blocks:
            self._spool.add(edge in self._side_edges, (message.source, message.number, index), _EDGE.pack(edge) + block)
        for edge, micros in (message.watermarks or {}).items():
            self.watermarks.setdefault(edge, []).append(micros)

    def blocks(self, of_side_inputs: bool) -> Iterator[tuple[int, memoryview]]:
        """Remove and yield the blocks of side inputs, or all others, with their edges: sender by sender, as sent."""
        for data in self._spool.blocks(of_side_inputs):
            yield _EDGE.unpack_from(data)[0], memoryview(data)[_EDGE.size :]

    def close(self) -> None:
        """Remove what was spilled."""
        self._spool.close()


class MessageWriter:
    """Partitions a subtask's output and collects it into messages.

    Args:
      edges: the output edges of the task.
      parallelism: the number of subtasks of each task.
      labels: by edge, the transform that errors are attributed to.
    """

    def __init__(self, id: SubtaskId, edges: Iterable[Edge], parallelism: int, labels: Mapping[int, str]) -> None:
        self._id = id
        self._edges = list(edges)
        self._labels = labels
        self._parallelism = parallelism
        shuffles = [edge for edge in self._edges if edge.kind is EdgeKind.SHUFFLE]
        self._partitioners = {edge.id: Partitioner(parallelism, labels[edge.id]) for edge in shuffles}
        folds = ((edge.id, PreAggregation.of(edge.step)) for edge in shuffles)
        self._folds = {id: fold for id, fold in folds if fold is not None}
        self._consumers = sorted({edge.consumer for edge in self._edges})
        self.begin("")

    def begin(self, attempt: str) -> None:
        """Begin a batch."""
        self._attempt = attempt
        self._count = 0
        self._blocks: dict[SubtaskId, list[tuple[int, int, bytes]]] = {}
        self._sizes: dict[SubtaskId, int] = {}
        self._numbers: dict[SubtaskId, int] = {}
        self._full: list[Row] = []
        for fold in self._folds.values():
            fold.clear()

    def write(self, edge: Edge, bundle: Bundle) -> None:
        """Send a bundle along an edge."""
        if not len(bundle):
            return
        if edge.kind is EdgeKind.SHUFFLE:
            self._write_folded(edge, bundle)
            return
        targets = [self._id.index] if edge.kind is EdgeKind.FORWARD else range(self._parallelism)
        blocks = self._encoded(edge, bundle)
        for target in targets:
            self._append(edge, target, blocks)

    def _write_folded(self, edge: Edge, bundle: Bundle) -> None:
        """Write a bundle of a shuffle, or fold it into the table of its edge."""
        fold = self._folds.get(edge.id)
        rest = bundle if fold is None else fold.add(bundle)
        if fold is not None and (rest is not None or fold.is_full):
            self._write_table(edge, fold)
        if rest is not None:
            self._write_parts(edge, rest)

    def _write_table(self, edge: Edge, fold: PreAggregation) -> None:
        for _, folded in fold.take():
            self._write_parts(edge, folded)

    def _write_parts(self, edge: Edge, bundle: Bundle) -> None:
        for target, part in enumerate(self._partitioners[edge.id].parts(bundle)):
            if len(part):
                self._append(edge, target, self._encoded(edge, part))

    def _encoded(self, edge: Edge, bundle: Bundle) -> list[bytes]:
        return guarded(self._labels[edge.id], lambda: list(encode_bundle(bundle)))

    def _append(self, edge: Edge, target: int, blocks: Iterable[bytes]) -> None:
        to = SubtaskId(edge.consumer, target)
        own = self._blocks.setdefault(to, [])
        for block in blocks:
            self._count += 1
            own.append((self._count, edge.id, block))
            self._sizes[to] = self._sizes.get(to, 0) + len(block)
        if self._sizes.get(to, 0) >= MESSAGE_BYTES:
            self._full.append(self._message(to, None))

    def _message(self, to: SubtaskId, watermarks: Mapping[int, int] | None) -> Row:
        number = self._numbers[to] = self._numbers.get(to, 0) + 1
        blocks = self._blocks.pop(to, [])
        self._sizes.pop(to, None)
        message = ShuffleMessage(self._id, self._attempt, number, blocks, watermarks)
        return to.index, address(to.task, pickle.dumps(message, protocol=5))

    def flush_tables(self) -> None:
        """Write the tables of folded elements, before the batch's last messages."""
        for edge in self._edges:
            if edge.id in self._folds:
                self._write_table(edge, self._folds[edge.id])

    def take_full(self) -> list[Row]:
        """Remove and return the messages that have reached their size."""
        full, self._full = self._full, []
        return full

    def finish(self, watermarks: Mapping[int, int]) -> Iterator[Row]:
        """Yield the last messages of the batch: one to each downstream subtask, with the watermarks of its edges."""
        yield from self.take_full()
        for task in self._consumers:
            own = {edge.id: watermarks[edge.id] for edge in self._edges if edge.consumer == task}
            for target in range(self._parallelism):
                yield self._message(SubtaskId(task, target), own)

    def teardown(self) -> None:
        """Tear down the combiners of pre-aggregations."""
        for fold in self._folds.values():
            fold.teardown()
