"""A layout: the logs of so many subtasks, until the job goes on with another number of them.

A job that is started with another `--parallelism` begins with as many subtasks as there were, until each has begun
its log; then it takes all logs over, folds them, and begins the logs of the next layout with what the new ones inherit.
The layout that counts is the one which the job's own log names, so this is done, or not, at one moment; and a zombie,
which writes into a log of its own that nobody reads, can't take it back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from ....sdk.errors import CheckpointMismatchError, SnapshotError
from ...execution.checkpoints.log_listing import LogListing
from ...execution.checkpoints.manifest import CheckpointKind
from ...execution.checkpoints.storage import Disk
from ...execution.checkpoints.store import SnapshotStore
from ...execution.plan.execution_graph import ExecutionGraph, cut, whole
from ...execution.plan.fusion import Plan
from ...execution.plan.source_identities import Identities, identities_of
from ...execution.sinks.committer import Staged, encode_staged
from ...execution.state.schema import Shapes, shapes_of
from ...execution.streaming.snapshot_chunks import labels_of, records_of
from ..workers.pool import ids_of
from ..workers.snapshot_writer import SINKS, part_name
from .log import ProductionLog, remove_logs
from .merged_logs import MergedLogs
from .slot import listed_log, log_directory

# Among the logs, the directory of savepoints: one of checkpoints, as `--delivery=barriers` has them.
SAVEPOINTS = "savepoints"


@attrs.frozen
class Layout:
    """Whose logs there are.

    Attributes:
      number: goes up from one layout to the next.
      parallelism: how many subtasks each task has.
      tasks: the tasks' labels.
      sources: what the sources are, by label.
      state: what the steps keep, by label.
    """

    number: int
    parallelism: int
    tasks: tuple[str, ...]
    sources: dict[str, dict[str, Any]] = attrs.field(factory=dict, eq=False)
    state: dict[str, dict[str, str]] = attrs.field(factory=dict, eq=False)

    @staticmethod
    def of(execution_graph: ExecutionGraph, number: int) -> Layout:
        """The one of this graph's subtasks."""
        tasks = tuple(task.label for task in execution_graph.tasks)
        plan = execution_graph.plan
        return Layout(number, execution_graph.parallelism, tasks, identities_of(plan), shapes_of(plan))

    def as_data(self) -> list[Any]:
        """Return the layout as fields of a record."""
        return [self.number, self.parallelism, self.tasks, self.sources, self.state]

    @staticmethod
    def of_data(
        number: int,
        parallelism: int,
        tasks: list[str],
        sources: dict[str, dict[str, Any]],
        state: dict[str, dict[str, str]],
    ) -> Layout:
        """Return the layout that `as_data` was called of."""
        return Layout(number, parallelism, tuple(tasks), sources, state)

    def graph(self, plan: Plan, directory: str) -> ExecutionGraph:
        """The tasks and subtasks whose logs these are; `CheckpointMismatchError` if the pipeline has others."""
        execution_graph = whole(plan) if self.parallelism == 1 else cut(plan, self.parallelism)
        ours = Layout.of(execution_graph, self.number)
        if self != ours:
            raise CheckpointMismatchError(
                f"{directory}: the productions there are of tasks {list(self.tasks)!r}, and the pipeline has "
                f"{list(ours.tasks)!r}. With --delivery=strong or weak it can only go on with the same steps"
            )
        return execution_graph

    def directory(self, directory: str) -> str:
        """Where its logs are.

        >>> Layout(1, 2, ()).directory("kept"), Layout(2, 3, ()).directory("kept")
        ('kept', 'kept/layout-2')
        """
        return directory if self.number == 1 else f"{directory}/layout-{self.number}"

    def listing(self, directory: str) -> str:
        """Return the path of the list of its logs, which stands beside them.

        >>> Layout(2, 3, ()).listing("kept")
        'kept/listed-2'
        """
        return f"{directory}/listed-{self.number}"

    def make_listing(self, disk: Disk, directory: str) -> None:
        """Make the list, before any of its logs is there; raises `SnapshotError`."""
        LogListing(disk, self.listing(directory)).create(len(self.tasks) * self.parallelism)


def begin_layout(
    merged: MergedLogs, layout: Layout, execution_graph: ExecutionGraph, disk: Disk, directory: str, token: str
) -> None:
    """Begin the logs of other subtasks with what they inherit.  Nothing counts before the layout does.

    Args:
      directory: that of all layouts.
    """
    layout.make_listing(disk, directory)
    logs, listing = layout.directory(directory), layout.listing(directory)
    for id in ids_of(execution_graph):
        listed = listed_log(disk, listing, execution_graph, id)
        log = ProductionLog(disk, log_directory(logs, id), ahead=0, listed=listed)
        log.take_over(token)
        log.begin([merged.inherited(id, execution_graph.parallelism).record()])


def remove_layout(layout: Layout, execution_graph: ExecutionGraph, disk: Disk, directory: str) -> None:
    """Remove logs that nobody will read any more; where the disk fails they stay."""
    for id in ids_of(execution_graph):
        remove_logs(disk, log_directory(layout.directory(directory), id))
    with suppress(OSError):
        disk.remove(layout.listing(directory))


def write_savepoint(
    merged: MergedLogs,
    disk: Disk,
    directory: str,
    transaction: str | None,
    token: Callable[[], str],
    now: Callable[[], float],
    allow_untrusted: bool,
    sources: Identities,
    state: Shapes,
) -> int:
    """Write what the logs come to as a savepoint, from which a copy of the pipeline can start; its epoch.

    Args:
      directory: that of the logs.
      transaction: what sinks go on writing in; None if all that they have staged is committed.
      sources, state: what the sources are, and what the steps keep, by label.

    Raises `SnapshotError`.
    """
    store = SnapshotStore(disk, f"{directory}/{SAVEPOINTS}", allow_untrusted=allow_untrusted, token=token, now=now)
    store.take_over()
    epoch = max((found.name.epoch for found in store.found()), default=0) + 1
    store.begin(epoch)
    try:
        described: dict[str, Any] = {}
        references = []
        for id, chunks in merged.parts.items():
            name = part_name(id, merged.parallelism)
            references.append(store.write_part(epoch, name, records_of(chunks)))
            described[name] = {"subtask": id.index, "of": merged.parallelism, "labels": list(labels_of(chunks))}
        metadata: dict[str, Any] = {"parts": described, "sources": sources, "state": state}
        if transaction is not None:
            metadata["transaction"] = transaction
            references.append(store.write_part(epoch, SINKS, [encode_staged(staged_of(merged))]))
        store.commit(epoch, references, metadata, CheckpointKind.SAVEPOINT)
    except SnapshotError:
        if store.is_open(epoch):
            store.abort(epoch)
        raise
    return epoch


def staged_of(merged: MergedLogs) -> Staged:
    """By sink label, what was staged and isn't known to be committed."""
    staged: dict[str, list[tuple[str, Any]]] = {}
    for label, transaction, token in merged.staged:
        staged.setdefault(label, []).append((transaction, token))
    return staged
