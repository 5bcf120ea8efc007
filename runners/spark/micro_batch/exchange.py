"""What travels through the shuffles of a micro-batch.

Level by level the tasks of a batch hand *parcels* to each other: elements on the edges between two levels,
and how far the watermark is on each.  A parcel for a later level is passed on as it is, and so is what each
task has to tell the driver; in the end all of that comes out of the last level, and a batch is one job in
which nothing is computed twice.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, TypeAlias

import attrs

from ....sdk.bundle import Bundle
from ....sdk.metrics import MetricsContainer
from ...execution.checkpoints.manifest import PartReference
from ...execution.counters import Counts
from ...execution.plan.execution_graph import Edge, EdgeKind
from ...execution.shuffle.blocks import encode_bundle
from ...execution.shuffle.partitioner import Partitioner
from ...execution.shuffle.pre_aggregation import PreAggregation
from ...execution.user_errors import guarded
from .task_rdds import Row

# How many bytes of blocks make a parcel full.
FULL = 8 << 20

Buffer: TypeAlias = bytes | memoryview

# In front of what is sent: the level that it is for.
_LEVEL = struct.Struct("<i")


def address(level: int, data: bytes) -> bytes:
    """What is sent to a level, or, as if there were one more, to the driver.

    >>> level, data = addressed(address(2, b"parcel"))
    >>> level, bytes(data)
    (2, b'parcel')
    """
    return _LEVEL.pack(level) + data


def addressed(row: bytes) -> tuple[int, Buffer]:
    """For which level something was sent, and what."""
    return _LEVEL.unpack_from(row)[0], memoryview(row)[_LEVEL.size :]


class TaskId(NamedTuple):
    """Which level's task, on which shard."""

    level: int
    shard: int


class Parcel(NamedTuple):
    """Elements from one task to another.

    Attributes:
      number: which of the parcels between these two.
      attempt: what tells two attempts of a task apart.
      blocks: bundles in the order in which they were made, each with the number of its edge.
      watermarks: by edge, in microseconds; in the last parcel only.
    """

    source: TaskId
    attempt: str
    number: int
    blocks: list[tuple[int, int, bytes]]
    watermarks: Mapping[int, int] | None


@attrs.define
class TaskSeconds:
    """What a task spends its time on, in seconds by the clock.

    Attributes:
      loading: reading its state from the store, where its worker didn't have it.
      working: taking in what it was sent, its steps' work, and what it sends.
      saving: writing what has changed of its state.
    """

    loading: float = 0.0
    working: float = 0.0
    saving: float = 0.0


@attrs.frozen
class TaskResult:
    """What a task tells the driver.

    Attributes:
      consumed: which attempts' parcels it was given.
      part: its state as it is now; None if it keeps none.
      labels: the steps that something is kept of.
      staged: the tokens of its sinks, pickled, by label.
      next_time: when something will be due by the clock, in microseconds.
      next_event_times: when by the watermark, of each step the next.
      is_complete: whether nothing more will come out of it.
      loaded: whether it had to read its state.
      seconds: what it has spent its time on.
      newest: of streaming DataFrames, the greatest event time that it has read, by label.
    """

    id: TaskId
    attempt: str
    consumed: Mapping[TaskId, str]
    part: PartReference | None
    labels: tuple[str, ...]
    staged: Mapping[str, list[bytes]]
    metrics: MetricsContainer
    counts: Counts
    next_time: int | None
    next_event_times: Set[int]
    is_complete: bool
    loaded: bool = False
    seconds: TaskSeconds = attrs.field(factory=TaskSeconds)
    newest: Mapping[str, int] = attrs.field(factory=dict)


class Outbox:
    """The parcels that a task makes.

    Args:
      edges: those that begin in it.
      shards: how many there are.
      labels: by edge, what an error is attributed to.
    """

    def __init__(self, id: TaskId, edges: Iterable[Edge], shards: int, labels: Mapping[int, str]) -> None:
        self._id = id
        self._edges = list(edges)
        self._labels = labels
        self._shards = shards
        self._partitioners = {
            edge.id: Partitioner(shards, labels[edge.id]) for edge in self._edges if edge.kind is EdgeKind.SHUFFLE
        }
        folds = ((edge.id, PreAggregation.of(edge.step)) for edge in self._edges if edge.kind is EdgeKind.SHUFFLE)
        self._folds = {id: fold for id, fold in folds if fold is not None}
        self._levels = sorted({edge.consumer for edge in self._edges})
        self.begin("")

    def begin(self, attempt: str) -> None:
        """Begin a batch."""
        self._attempt = attempt
        self._made = 0
        self._held: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self.full: list[Row] = []

    def send(self, edge: Edge, bundle: Bundle) -> None:
        """Put elements on an edge."""
        if not len(bundle):
            return
        if edge.kind is EdgeKind.SHUFFLE:
            if edge.id in self._folds:
                bundle = self._folds[edge.id].folded(bundle)
            parts = enumerate(self._partitioners[edge.id].parts(bundle))
        else:
            targets = [self._id.shard] if edge.kind is EdgeKind.FORWARD else list(range(self._shards))
            blocks = self._encoded(edge, bundle)
            for target in targets:
                self._put(edge, target, blocks)
            return
        for target, part in parts:
            if len(part):
                self._put(edge, target, self._encoded(edge, part))

    def _encoded(self, edge: Edge, bundle: Bundle) -> list[bytes]:
        return guarded(self._labels[edge.id], lambda: list(encode_bundle(bundle)))

    def _put(self, edge: Edge, target: int, blocks: Iterable[bytes]) -> None:
        to = edge.consumer, target
        held = self._held.setdefault(to, [])
        for block in blocks:
            self._made += 1
            held.append((self._made, edge.id, block))
            self._sizes[to] = self._sizes.get(to, 0) + len(block)
        if self._sizes.get(to, 0) >= FULL:
            self.full.append(self._closed(to, None))

    def _closed(self, to: tuple[int, int], watermarks: Mapping[int, int] | None) -> Row:
        level, target = to
        number = self._numbers[to] = self._numbers.get(to, 0) + 1
        blocks = self._held.pop(to, [])
        self._sizes.pop(to, None)
        parcel = Parcel(self._id, self._attempt, number, blocks, watermarks)
        return target, address(level, pickle.dumps(parcel, protocol=5))

    def teardown(self) -> None:
        """Nothing more will be sent."""
        for fold in self._folds.values():
            fold.teardown()

    def taken(self) -> list[Row]:
        """The parcels that are full."""
        full, self.full = self.full, []
        return full

    def finish(self, watermarks: Mapping[int, int]) -> Iterator[Row]:
        """The last parcels of the batch: one to every task that an edge leads to, with the watermarks by edge."""
        yield from self.taken()
        for level in self._levels:
            own = {edge.id: watermarks[edge.id] for edge in self._edges if edge.consumer == level}
            for target in range(self._shards):
                yield self._closed((level, target), own)
