"""A layout: the logs of all subtasks with one parallelism.

A job that is started with another `--parallelism` resumes with the old one, until each subtask has begun its log.  Then
it takes all logs over, merges them, and begins the logs of the next layout with the state that their subtasks inherit.
The job's own log names the current layout, so the change is atomic; and a zombie, whose log is read no more, can't
undo it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from ....frozen import frozen
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

# The directory of savepoints, which have the format of checkpoints of `--delivery=barriers`.
SAVEPOINTS = "savepoints"


@frozen
class Layout:
    """The subtasks that have logs.

    Attributes:
      number: greater than those of earlier layouts.
      parallelism: the parallelism of the tasks.
      tasks: the labels of the tasks.
      sources: the identities of the sources, by label.
      state: the kinds of state that the steps keep, by label.
    """

    number: int
    parallelism: int
    tasks: tuple[str, ...]
    sources: dict[str, dict[str, Any]] = attrs.field(factory=dict, eq=False)
    state: dict[str, dict[str, str]] = attrs.field(factory=dict, eq=False)

    @staticmethod
    def of(execution_graph: ExecutionGraph, number: int) -> Layout:
        """Return the layout of an execution graph."""
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
        """Return the layout from the fields of a record."""
        return Layout(number, parallelism, tuple(tasks), sources, state)

    def graph(self, plan: Plan, directory: str) -> ExecutionGraph:
        """Return the execution graph of the logs; raise `CheckpointMismatchError` if the plan has other tasks."""
        execution_graph = whole(plan) if self.parallelism == 1 else cut(plan, self.parallelism)
        ours = Layout.of(execution_graph, self.number)
        if self != ours:
            raise CheckpointMismatchError(
                f"{directory}: the logs are of tasks {list(self.tasks)!r}, and the pipeline has "
                f"{list(ours.tasks)!r}. With --delivery=strong or weak a pipeline resumes with the same steps only"
            )
        return execution_graph

    def directory(self, directory: str) -> str:
        """Return the directory of its logs.

        >>> Layout(1, 2, ()).directory("kept"), Layout(2, 3, ()).directory("kept")
        ('kept', 'kept/layout-2')
        """
        return directory if self.number == 1 else f"{directory}/layout-{self.number}"

    def listing(self, directory: str) -> str:
        """Return the path of the list of its logs.

        >>> Layout(2, 3, ()).listing("kept")
        'kept/listed-2'
        """
        return f"{directory}/listed-{self.number}"

    def make_listing(self, disk: Disk, directory: str) -> None:
        """Create the list, before any of its logs.  Raises `SnapshotError`."""
        LogListing(disk, self.listing(directory)).create(len(self.tasks) * self.parallelism)


def begin_layout(
    merged: MergedLogs, layout: Layout, execution_graph: ExecutionGraph, disk: Disk, directory: str, token: str
) -> None:
    """Begin the logs of a layout with the state that its subtasks inherit.

    Args:
      directory: the directory of all layouts.
    """
    layout.make_listing(disk, directory)
    logs, listing = layout.directory(directory), layout.listing(directory)
    for id in ids_of(execution_graph):
        listed = listed_log(disk, listing, execution_graph, id)
        log = ProductionLog(disk, log_directory(logs, id), ahead=0, listed=listed)
        log.take_over(token)
        log.begin([merged.inherited(id, execution_graph.parallelism).record()])


def remove_layout(layout: Layout, execution_graph: ExecutionGraph, disk: Disk, directory: str) -> None:
    """Remove the logs of a former layout; if the disk fails, they stay."""
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
    """Write the merged logs as a savepoint, and return its epoch.

    Args:
      directory: the directory of the job.
      transaction: the transaction in which sinks continue; None if all staged tokens are committed.
      sources, state: the identities of the sources, and the kinds of state that the steps keep, by label.

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
    """Return, by the label of a sink, the staged tokens that are not known to be committed."""
    staged: dict[str, list[tuple[str, Any]]] = {}
    for label, transaction, token in merged.staged:
        staged.setdefault(label, []).append((transaction, token))
    return staged
