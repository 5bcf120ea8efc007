"""What a subtask puts into a snapshot, and takes out of one.

A snapshot is a list of chunks.  A chunk belongs to a step, by its label, and maybe to a key
group; so another pipeline, or other subtasks, can find what is theirs.  Of windows and keyed state
there may be chains: what was there, and then what has changed.  Of all else the newest counts.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from ...sdk.bundle import Bundle
from ...sdk.coders.key_encoding import key_groups
from ...sdk.serialization import dumps
from . import window_snapshots
from .dataflow import Receiver
from .execution_graph import Edge, EdgeKind, inputs_of, label_of
from .fusion import Back, Keyed, Plan, Stage
from .partitioning import owner
from .task_execution import TaskExecution
from .timers import Timer

# Kinds of chunks that are chained.
WINDOWS, STATE = "windows", "state"
# Kinds of which the newest counts.
CLOCKS, TIMERS, KEPT, IN_FLIGHT, TO_ALL, NEWS, MEMORY, VIEW, POSITIONS, SCRIPT = (
    "clocks",
    "timers",
    "kept",
    "in flight",
    "to all",
    "news",
    "memory",
    "view",
    "positions",
    "script",
)


_KEY = Timer._fields.index("key")

# About how many bytes of chunks are one record of a snapshot file.
_RECORD = 1 << 20


class Chunk(NamedTuple):
    """A part of a snapshot, as data that can be pickled.

    Attributes:
      label: the step's; of a VIEW the side input's producer's.
      group: the key group, of what is kept by key.
    """

    label: str
    kind: str
    group: int | None
    data: Any


def snapshot(execution: TaskExecution, is_whole: bool) -> list[Chunk]:
    """What a task's steps have to remember: all of it, or what has changed of the large parts."""
    chunks: list[Chunk] = []
    for label, grouping in execution.groupings.items():
        windows = grouping.windows
        assert windows is not None
        chunks.append(Chunk(label, CLOCKS, None, windows.clocks()))
        chunks += [Chunk(label, WINDOWS, *of_group) for of_group in window_snapshots.by_group(windows, is_whole)]
    for label, keyed in execution.keyed.items():
        executor = keyed.executor
        changes, timers = executor.snapshot() if is_whole else executor.changes()
        chunks.append(Chunk(label, CLOCKS, None, (executor.watermark, executor.processing_time)))
        # As tuples, which are pickled in a sixth of the time that named ones take.
        chunks += _grouped(label, STATE, list(map(tuple, changes)), lambda change: change[1])
        plain = [(tuple(timer), domain) for timer, domain in timers]
        chunks += _grouped(label, TIMERS, plain, lambda entry: entry[0][_KEY])
    for step in execution.task.steps:
        if not isinstance(step, (Stage, Keyed)):
            continue
        run = execution.dataflow.stages[id(step)]
        kept = run.kept()
        if kept and isinstance(step, Keyed):
            rows = [row for bundle in kept for row in bundle.rows()]
            chunks += _grouped(label_of(step), KEPT, rows, lambda row: row[0][0])
        elif kept:
            chunks.append(Chunk(label_of(step), KEPT, None, [row for bundle in kept for row in bundle.rows()]))
        memories = {place: memory.snapshot() for place, memory in run.executor.memories.items()}
        if memories:
            chunks.append(Chunk(label_of(step), MEMORY, None, memories))
    for pcollection in sorted(execution.side_inputs):
        view = execution.views.snapshot(pcollection)
        if view[0]:
            chunks.append(Chunk(_name(execution, pcollection), VIEW, None, view))
    return chunks


def weight(execution: TaskExecution, is_whole: bool) -> int:
    """About how many entries a snapshot has."""
    memories = [memory for run in execution.dataflow.stages.values() for memory in run.executor.memories.values()]
    entries = sum(len(memory.snapshot()) for memory in memories)
    for grouping in execution.groupings.values():
        if grouping.windows is not None:
            entries += len(grouping.windows) if is_whole else len(grouping.windows.changed or ())
    for keyed in execution.keyed.values():
        state = keyed.executor.state
        entries += (len(state) if is_whole else state.number_changed) + len(keyed.executor.timers)
    return entries


def forget_changes(execution: TaskExecution) -> list[dict[Any, None]]:
    """Somebody else writes the snapshot: what changes from here on is the next changes.

    Returns what was remembered of those before.  Letting go of a million entries takes long, and
    longer while a forked child shares the memory that they are in.
    """
    forgotten: list[dict[Any, None]] = []
    for grouping in execution.groupings.values():
        if grouping.windows is not None:
            forgotten.append(cast(dict[Any, None], grouping.windows.changed or {}))
            grouping.windows.changed = {}
    for keyed in execution.keyed.values():
        forgotten += keyed.executor.state.forget_changes()
    return forgotten


def _grouped(label: str, kind: str, records: Sequence[Any], key: Callable[[Any], Any]) -> list[Chunk]:
    by_group: dict[int, list[Any]] = {}
    for group, record in zip(key_groups([key(record) for record in records]), records, strict=True):
        by_group.setdefault(group, []).append(record)
    return [Chunk(label, kind, group, own) for group, own in by_group.items()]


def in_flight(execution: TaskExecution, edge: Edge, rows: Sequence[Any]) -> list[Chunk]:
    """Elements that were on their way on an edge."""
    return on_the_way(execution.plan, edge, rows)


def on_the_way(plan: Plan, edge: Edge, rows: Sequence[Any]) -> list[Chunk]:
    """The same for whoever doesn't execute the task."""
    label, kind = _in_flight_name(plan, edge)
    if edge.kind is EdgeKind.SHUFFLE:
        return _grouped(label, kind, rows, lambda row: row[0][0])
    return [Chunk(label, kind, None, list(rows))] if rows else []


def in_flight_name(execution: TaskExecution, edge: Edge) -> tuple[str, str]:
    """The label and the kind of chunks of what was on its way on an edge."""
    return _in_flight_name(execution.plan, edge)


def _in_flight_name(plan: Plan, edge: Edge) -> tuple[str, str]:
    name = _producer(plan, edge.pcollection)
    return (name, TO_ALL) if edge.step is None else (label_of(edge.step), f"{IN_FLIGHT} from {name}")


def in_flight_within(execution: TaskExecution, restored: Restored) -> Iterator[tuple[Receiver, list[Any]]]:
    """What was on its way on edges that are within this task now, as with one subtask they all are."""
    arriving = {(id(edge.step), edge.pcollection) for edge in execution.task.inputs}
    # The last steps first: what is further on came earlier.
    for step in reversed(execution.task.steps):
        for pcollection in dict.fromkeys(inputs_of(step)):
            if (id(step), pcollection) not in arriving:
                found = restored.newest(label_of(step), f"{IN_FLIGHT} from {_name(execution, pcollection)}")
                yield execution.dataflow.entries[id(step), pcollection], [row for own in found for row in own]
        if isinstance(step, Back) and (id(step), step.transform.inputs[0]) not in arriving:
            name = _name(execution, step.transform.inputs[0])
            found = restored.newest(step.head, f"{IN_FLIGHT} from {name}")
            yield execution.dataflow.entries[id(step), step.transform.inputs[0]], [row for own in found for row in own]
    for pcollection in sorted(execution.side_inputs - {edge.pcollection for edge in execution.task.inputs}):
        found = restored.newest(_name(execution, pcollection), TO_ALL)
        yield partial(execution.views.add, pcollection), [row for own in found for row in own]


def _name(execution: TaskExecution, pcollection: int) -> str:
    return _producer(execution.plan, pcollection)


def _producer(plan: Plan, pcollection: int) -> str:
    node = plan.graph.pcollections[pcollection]
    return node.producer if node.tag is None else f"{node.producer}[{node.tag}]"


def labels_of(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    """The steps that something is kept of."""
    return tuple(dict.fromkeys(chunk.label for chunk in chunks if chunk.kind != CLOCKS))


def records_of(chunks: Iterable[Chunk]) -> Iterator[bytes]:
    """Chunks as the records of a snapshot file: each one or more pickles."""
    gathered: list[bytes] = []
    size = 0
    for chunk in chunks:
        data = _pickled(tuple(chunk))
        gathered.append(data)
        size += len(data)
        if size >= _RECORD:
            yield b"".join(gathered)
            gathered, size = [], 0
    yield b"".join(gathered)


def chunks_of(records: Iterable[bytes]) -> Iterator[Chunk]:
    """The chunks that `records_of` made records of."""
    for record in records:
        file = io.BytesIO(record)
        while file.tell() < len(record):
            yield Chunk(*pickle.load(file))


def _pickled(data: Any) -> bytes:
    try:
        return pickle.dumps(data, protocol=5)
    except Exception:
        # Of a class or function that has no name to import it by.
        return dumps(data, data[0], advice="What is kept in a snapshot has to be data.")


class Restored:
    """The chunks of a snapshot that concern one subtask.

    Args:
      index, parallelism: which of how many subtasks it is.
    """

    def __init__(self, index: int, parallelism: int) -> None:
        self._index = index
        self._parallelism = parallelism
        self._chained: dict[tuple[str, str], list[Any]] = {}
        self._newest: dict[tuple[str, str], list[Any]] = {}
        # By the producer of a side input, whose view is taken: its number among the parts.
        self._views: dict[str, int] = {}
        self._parts = 0

    def add(self, chain: Sequence[Iterable[Chunk]], index: int, parallelism: int) -> None:
        """Take in what a subtask, the `index`th of so many, wrote: a whole snapshot, then changes, oldest first."""
        self._parts += 1
        for i, chunks in enumerate(chain):
            is_newest = i == len(chain) - 1
            for label, kind, group, data in chunks:
                if group is None:
                    is_mine = self._takes(kind, index, parallelism)
                else:
                    is_mine = owner(group, self._parallelism) == self._index
                if is_mine and is_newest and kind in (VIEW, TO_ALL):
                    # Each subtask had all of it: together with what was on its way to that one.
                    is_mine = self._views.setdefault(label, self._parts) == self._parts
                if is_mine and kind in (WINDOWS, STATE):
                    self._chained.setdefault((label, kind), []).extend(data)
                elif is_mine and is_newest:
                    self._newest.setdefault((label, kind), []).append(data)

    def _takes(self, kind: str, index: int, parallelism: int) -> bool:
        """Whether what belongs to no key is this subtask's."""
        if kind not in (MEMORY, KEPT, NEWS, VIEW, TO_ALL) and not kind.startswith(IN_FLIGHT):
            return True
        if parallelism == self._parallelism:
            return index == self._index
        if kind in (VIEW, TO_ALL):
            return True
        if kind == NEWS:
            return index == 0
        # What waits may go on anywhere; what may be retracted, nobody knows where that will come.
        return kind == MEMORY or self._index == 0

    def into(self, execution: TaskExecution) -> None:
        """Put everything where it belongs, before the first element comes."""
        for label, grouping in execution.groupings.items():
            windows = grouping.windows
            assert windows is not None
            clocks = self.newest(label, CLOCKS)
            if clocks:
                # Behind one barrier all subtasks have heard of the same times.
                windows.set_clocks(min(clocks, key=lambda known: known[0]))
            window_snapshots.restore(windows, self._chained.get((label, WINDOWS), ()))
        for label, keyed in execution.keyed.items():
            executor = keyed.executor
            clocks = self.newest(label, CLOCKS)
            if clocks:
                executor.watermark, executor.processing_time = min(clocks)
            timers = [(Timer(*plain), domain) for own in self.newest(label, TIMERS) for plain, domain in own]
            executor.restore(self._chained.get((label, STATE), ()), timers)
        for pcollection in sorted(execution.side_inputs):
            views = self.newest(_name(execution, pcollection), VIEW)
            if views:
                # Each subtask had all of it.
                execution.views.restore(pcollection, views[0])
        for step in execution.task.steps:
            if isinstance(step, (Stage, Keyed)):
                self._into_stage(execution, step)

    def _into_stage(self, execution: TaskExecution, step: Stage | Keyed) -> None:
        run = execution.dataflow.stages[id(step)]
        for memories in self.newest(label_of(step), MEMORY):
            for place, kept in memories.items():
                run.executor.memory(place).restore(kept)
        for rows in self.newest(label_of(step), KEPT):
            run.keep([Bundle(*map(list, zip(*rows, strict=True)))])

    def newest(self, label: str, kind: str) -> list[Any]:
        """What the subtasks wrote last of a kind."""
        return self._newest.get((label, kind), [])

    @property
    def labels(self) -> set[str]:
        """The steps that something is kept of."""
        return {label for label, _ in (*self._chained, *self._newest)}
