"""Snapshot writer of a slot: makes its subtasks' parts of checkpoints durable in the background, and reads them back.

A forked child writes a large snapshot.  A fork costs a few milliseconds whatever there is to write: the child has the
state as it was at the barrier, serializes it, writes it and exits.  Where a process can't fork safely, a thread
serializes and writes what stays as it is (see `snapshot_in_parts`), which takes time from processing, since both need
the interpreter's lock, but never stops it for long.  The rest is serialized at the barrier.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from itertools import chain
from typing import Any

import attrs

from ....frozen import frozen
from ....sdk.errors import SnapshotError
from ....sdk.user_code.error_text import text_or_class
from ...execution.checkpoints.catalog import path_of
from ...execution.checkpoints.manifest import Checkpoint, PartReference
from ...execution.checkpoints.store import SnapshotStore
from ...execution.clock import steady_time
from ...execution.plan.execution_graph import SubtaskId
from ...execution.plan.fusion import Plan
from ...execution.state.schema import mismatches, shapes_of
from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import Chunk, Origin, chunks_of, labels_of, records_of
from ...execution.streaming.state_backend import StateBackend
from ...execution.streaming.tables import StoredTables
from ..subtask.reports import Snapshot
from .protocol import Acknowledged, Declined, Report

# The part of a checkpoint that belongs to the job, and to no subtask.
SINKS = "sinks"

# In a manifest's metadata, the latest processing time of any subtask at the checkpoint, in microseconds.
PROCESSING_TIME = "processing_time"

# In the metadata of the checkpoint that ends a bounded run, the transaction that it publishes.
PUBLISHED = "published"

# Entries from which a snapshot is worth a fork: that takes 20 ms of CPU, most of it for memory that is copied as it
# changes afterwards, and 10,000 entries take about as long.
LARGE = 10_000

# Entries of old sets of changes to free at a time: two milliseconds' worth, and more than a bundle can change.  As many
# for each set that waits, or at full speed their number would grow.
_FREED = 20_000

# File descriptors that a child closes, at most.
_DESCRIPTORS = 65_536

# Seconds to wait for the snapshot that the thread is writing, at the end of an attempt.
_PATIENCE = 10.0


def part_name(id: SubtaskId, parallelism: int) -> str:
    """Return the name of a subtask's part of a checkpoint.

    >>> part_name(SubtaskId(2, 0), 4)
    'task 2, subtask 0 of 4'
    """
    return f"task {id.task}, subtask {id.index} of {parallelism}"


class SnapshotWriter:
    """Writes the snapshots of a slot's subtasks.

    Args:
      store: the store of snapshots; None if the run keeps none.
      parallelism: the number of subtasks of each task.
      report: called when a snapshot is durable, or can't be written.
      forget_changes: begins a new set of a subtask's changes, and returns the last.

    Attributes:
      waits: whether processing waits until a small snapshot is durable.
      has_pending: true if `poll` has something to do.
    """

    def __init__(
        self,
        store: SnapshotStore | None,
        parallelism: int,
        report: Callable[[Report], None],
        forget_changes: Callable[[SubtaskId], list[dict[Any, None]]],
    ) -> None:
        self._store = store
        self._parallelism = parallelism
        self._report = report
        self._forget_changes = forget_changes
        # The last parts of each subtask by epoch, from that of the newest committed checkpoint on.  A barrier asks for
        # changes only if the last part is in that.
        self._written: dict[SubtaskId, dict[int, PartReference]] = {}
        self._children = ForkedWriters()
        self.waits = True
        self.has_pending = False
        self._thread = WriterThread()
        # When the writing of each subtask's last snapshot began.
        self._began: dict[SubtaskId, int] = {}
        # The epoch of each subtask's last snapshot.
        self._epochs: dict[SubtaskId, int] = {}
        # Sets of changes that are shared with children.
        self._forgotten: list[dict[Any, None]] = []
        # The steps whose state is in each subtask's part.
        self._labels: dict[SubtaskId, dict[str, None]] = {}

    def restored(self, id: SubtaskId, checkpoint: Checkpoint) -> None:
        """Note the checkpoint that a subtask was restored from: the next snapshot may share tables of its part."""
        for part in checkpoint.parts:
            if part.name == part_name(id, self._parallelism):
                self._written[id] = {checkpoint.epoch: part}

    def may_fork(self) -> bool:
        """Return True if children can write large snapshots safely."""
        return self._children.may_fork()

    @property
    def is_writing(self) -> bool:
        """True while a child or the thread is writing, or `poll` has not reported its result yet."""
        return self._children.is_busy or self._thread.is_busy

    def write(self, id: SubtaskId, snapshot: Snapshot) -> None:
        """Write the snapshot of a subtask, and report."""
        self.has_pending = True
        self._epochs[id] = snapshot.epoch
        self._began[id] = steady_time()
        copied = snapshot if snapshot.uncopied is None else self._fork(id, snapshot, snapshot.uncopied)
        if copied is None:
            return
        if self._store is None:
            self._report((id, Acknowledged(snapshot.epoch, None, snapshot.staged, (), snapshot.metrics, snapshot.now)))
        elif self.waits:
            self._report((id, self._written_now(id, copied)))
        else:
            self._write_in_thread(id, copied)

    def poll(self) -> None:
        """Report snapshots that have been written, and free sets of changes that no child shares any more."""
        if self._thread.is_busy:
            self._thread.poll()
        if self._children.is_busy:
            self._children.poll()
        elif self._forgotten:
            self._free()
        self.has_pending = self.is_writing or bool(self._forgotten)

    def abandon(self) -> None:
        """Give up the snapshots that are being written."""
        self._children.abandon()
        self._thread.abandon()

    def _written_now(self, id: SubtaskId, snapshot: Snapshot) -> Acknowledged | Declined:
        try:
            part = self._write(id, snapshot, self._base(id, snapshot))
        except SnapshotError as error:
            return Declined(snapshot.epoch, text_or_class(error))
        return self._acknowledged(id, snapshot, part)

    def _write_in_thread(self, id: SubtaskId, snapshot: Snapshot) -> None:
        """Serialize a snapshot, before the state changes, and have the thread write it."""
        serialized, base = snapshot._replace(records=list(snapshot.records)), self._base(id, snapshot)

        def done(part: PartReference | None, error: BaseException | None) -> None:
            if isinstance(error, SnapshotError):
                self._report((id, Declined(snapshot.epoch, text_or_class(error))))
            elif error is not None:
                raise error
            elif snapshot.epoch == self._epochs[id]:
                assert part is not None
                self._report((id, self._acknowledged(id, snapshot, part)))

        self._thread.begin(lambda: self._write(id, serialized, base), done)

    def _base(self, id: SubtaskId, snapshot: Snapshot) -> PartReference | None:
        """Return the part that an incremental snapshot is based on."""
        return None if snapshot.is_whole else list(self._written[id].values())[-1]

    def _write(self, id: SubtaskId, snapshot: Snapshot, base: PartReference | None) -> PartReference:
        assert self._store is not None
        records, tables = chain(snapshot.records, snapshot.later), snapshot.tables
        if tables is not None:
            tables = tables.after(self._written.get(id, {}).get(snapshot.base))
        return self._store.write_part(snapshot.epoch, part_name(id, self._parallelism), records, base, tables)

    def _acknowledged(self, id: SubtaskId, snapshot: Snapshot, part: PartReference) -> Acknowledged:
        written = self._written.get(id, {})
        self._written[id] = {epoch: own for epoch, own in written.items() if epoch >= snapshot.base}
        self._written[id][snapshot.epoch] = part
        if snapshot.is_whole:
            self._labels[id] = {}
        labels = self._labels[id]
        labels.update(dict.fromkeys(snapshot.labels))
        return Acknowledged(
            snapshot.epoch,
            part,
            snapshot.staged,
            tuple(labels),
            snapshot.metrics,
            snapshot.now,
            snapshot.offsets,
            snapshot.waited,
            steady_time() - self._began.get(id, steady_time()),
            snapshot.kept,
        )

    def _fork(self, id: SubtaskId, snapshot: Snapshot, copy: Callable[[], list[Chunk]]) -> Snapshot | None:
        """Have a child copy and write a snapshot.  Return the snapshot, copied, if there can't be a child."""

        def work() -> tuple[PartReference, tuple[str, ...]]:
            copied = _copied(snapshot, copy())
            return self._write(id, copied, self._base(id, copied)), copied.labels

        def done(written: tuple[PartReference, tuple[str, ...]] | None, why: str | None) -> None:
            if written is None:
                self._report((id, Declined(snapshot.epoch, str(why))))
                return
            part, labels = written
            self._report((id, self._acknowledged(id, snapshot._replace(labels=labels), part)))

        if self._store is not None and self._children.may_fork():
            try:
                self._children.begin(id, work, done)
            except OSError:
                # There is no memory, or no process number, for a child.
                pass
            else:
                self._forgotten += self._forget_changes(id)
                return None
        return _copied(snapshot, copy())

    def _free(self) -> None:
        """Free some entries of a set of changes."""
        last = self._forgotten[-1]
        for _ in range(min(len(last), _FREED * len(self._forgotten))):
            last.popitem()
        if not last:
            self._forgotten.pop()


def _system_threads(known: int) -> int:
    """Return the number of this process's threads, as the system counts them; `known` where it doesn't tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return known


def _copied(snapshot: Snapshot, chunks: list[Chunk]) -> Snapshot:
    return snapshot._replace(records=records_of(chunks), labels=labels_of(chunks), uncopied=None)


@frozen
class _Child:
    pid: int
    pipe: int
    done: Callable[[Any, str | None], None]
    received: list[bytes] = attrs.field(factory=list)


class ForkedWriters:
    """Forked children that write snapshots, at most one for each owner.

    A child shares no pipe with other processes, and does nothing that takes a lock which a thread of its parent could
    have held: no logging, no imports, no collection of garbage.

    >>> children, results = ForkedWriters(), []
    >>> if may_fork := children.may_fork():
    ...     children.begin("sums", lambda: 6 * 7, lambda result, why: results.append((result, why)))
    ...     children.finish()
    >>> results == [(42, None)] * may_fork
    True
    """

    def __init__(self) -> None:
        self._children: dict[Hashable, _Child] = {}

    def may_fork(self) -> bool:
        """Return True if no thread can hold a lock that a child needs.

        Penstock's own threads hold none of them; of other threads, those of libraries included, that isn't known.
        """
        if not hasattr(os, "fork") or threading.current_thread() is not threading.main_thread():
            return False
        own, threads = threading.current_thread(), threading.enumerate()
        if any(thread is not own and not thread.name.startswith("penstock") for thread in threads):
            return False
        return _system_threads(len(threads)) <= len(threads)

    def begin(self, owner: Hashable, work: Callable[[], Any], done: Callable[[Any, str | None], None]) -> None:
        """Have a child do `work`, after killing a child of the same owner that is still writing.

        Args:
          done: called by `poll` with the result of `work`, or with the reason why it failed.

        Raises `OSError` if there can't be a child.
        """
        self._kill(owner)
        reading, writing = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if pid == 0:
            _run_child(work, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        self._children[owner] = _Child(pid, reading, done)

    @property
    def is_busy(self) -> bool:
        """True while any child is writing."""
        return bool(self._children)

    def poll(self) -> None:
        """Call `done` for children that have ended, without waiting for others."""
        for owner, child in list(self._children.items()):
            try:
                while data := os.read(child.pipe, 1 << 16):
                    child.received.append(data)
            except BlockingIOError:
                continue
            del self._children[owner]
            os.close(child.pipe)
            _, status = os.waitpid(child.pid, 0)
            child.done(*_result_of(child, status))

    def finish(self) -> None:
        """Wait for all children."""
        while self._children:
            for child in self._children.values():
                os.set_blocking(child.pipe, True)
            self.poll()

    def abandon(self) -> None:
        """Kill all children."""
        for owner in list(self._children):
            self._kill(owner)

    def _kill(self, owner: Hashable) -> None:
        child = self._children.pop(owner, None)
        if child is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            os.close(child.pipe)
            os.waitpid(child.pid, 0)


def _result_of(child: _Child, status: int) -> tuple[Any, str | None]:
    if not child.received:
        return None, f"the process that was writing it exited with status {os.waitstatus_to_exitcode(status)}"
    result, why = pickle.loads(b"".join(child.received))
    return result, why


def _run_child(work: Callable[[], Any], pipe: int) -> None:
    """Run a child: do the work, send the result, and exit."""
    try:
        gc.disable()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Readers of the parent's pipes must not wait for the child.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, _DESCRIPTORS)
        try:
            result: Any = work(), None
        except Exception as error:
            result = None, text_or_class(error)
        view = memoryview(pickle.dumps(result, protocol=5))
        while view:
            view = view[os.write(pipe, view) :]
    finally:
        os._exit(0)


Done = Callable[[Any, BaseException | None], None]


class WriterThread:
    """Thread that writes snapshots in order.

    It is started when there is something to write, and ends when there is nothing more: a fork, which would lose it,
    rarely finds one.

    >>> thread = WriterThread()
    >>> thread.begin(lambda: 6 * 7, lambda result, error: print(result, error))
    >>> thread.finish()
    42 None
    """

    def __init__(self) -> None:
        # Held to decide whether a thread is started or ends.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._todo: deque[tuple[Callable[[], Any], Done]] = deque()
        self._finished: deque[tuple[Done, Any, BaseException | None]] = deque()
        self._count = 0

    def begin(self, work: Callable[[], Any], done: Done) -> None:
        """Have the thread do `work`.  `poll` calls `done` with its result, or with the exception that it raised."""
        self._count += 1
        with self._lock:
            self._todo.append((work, done))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock snapshots", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._todo:
                    self._thread = None
                    return
                work, done = self._todo.popleft()
            try:
                result, error = work(), None
            except BaseException as raised:
                result, error = None, raised
            self._finished.append((done, result, error))

    @property
    def is_busy(self) -> bool:
        """True while there is work that `poll` has not called `done` for."""
        return self._count > 0

    def poll(self) -> None:
        """Call `done` for finished work, without waiting for the rest."""
        while self._finished:
            done, result, error = self._finished.popleft()
            self._count -= 1
            done(result, error)

    def finish(self) -> None:
        """Wait for all work."""
        self._wait(None)
        self.poll()

    def abandon(self) -> None:
        """Begin nothing more, let the current write end, and drop all results."""
        with self._lock:
            self._todo.clear()
        self._wait(_PATIENCE)
        self._finished.clear()
        self._count = 0

    def _wait(self, seconds: float | None) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(seconds)


def restored_from(
    store: SnapshotStore,
    checkpoint: Checkpoint,
    id: SubtaskId,
    parallelism: int,
    plan: Plan | None = None,
    backend: StateBackend | None = None,
) -> Restored:
    """Return a subtask's state in a checkpoint, without states whose schema the pipeline has changed.

    Args:
      backend: takes the windows and the keyed state.
    """
    before = checkpoint.metadata.get("state", {})
    dropped = () if plan is None else mismatches(before, shapes_of(plan))
    is_anothers = not all(map(store.has_written, checkpoint.parts))
    restored = Restored(id.index, parallelism, dropped, compares_keys=is_anothers, backend=backend)
    restored.sources = checkpoint.metadata.get("sources", {})
    origin = Origin.of(f"checkpoint {checkpoint.epoch} in {store.directory}", plan, dropped)
    for part in checkpoint.parts:
        written = checkpoint.metadata["parts"].get(part.name)
        if written is not None:
            paths = [path_of(store.directory, file) for file in part.files]
            files = zip(paths, store.read_part(part), strict=True)
            of_files = [chunks_of(records, origin.of_file(path)) for path, (_, records) in files]
            labels = frozenset(written.get("labels", ()))
            tables = StoredTables(store, part, origin, labels) if part.tables else None
            restored.add(of_files, written["subtask"], written["of"], tables)
    return restored
