"""From one start of a job's producers to their end: sinks are committed behind productions."""

from __future__ import annotations

import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ....sdk.errors import SnapshotError
from ....sdk.runner import PipelineState
from ...execution.fusion import Output
from ..attempt import Attempt
from ..commands import Drain, Stop, Stopped
from ..requests import Wish
from ..subtask import SubtaskId
from .delivery import weak_tasks
from .producer import Produced, Recovered
from .production import StagedToken
from .slot import Allot, ProductionStart

if TYPE_CHECKING:
    from .job import ProductionJob

# How many transactions a subtask with sinks has in advance.
ALLOTTED = 3


class RestWanted(Exception):
    """All logs are to be read at once: nobody may be writing."""


class ProductionAttempt(Attempt):
    """From one start of the workers to their end, or until all subtasks have to be at rest."""

    _job: ProductionJob

    def __init__(self, job: ProductionJob) -> None:
        super().__init__(job, None)
        self._is_published_at_end = job._commits_at_end
        tasks = job._graph.tasks
        labels = {t.id: frozenset(s.transform.label for s in t.steps if isinstance(s, Output)) for t in tasks}
        # By subtask, the labels of its sinks.
        self._writing = {id: labels[id.task] for id in job._subtasks if labels[id.task]}
        self._count = 0
        self._recovering = set(job._subtasks)
        # What was reported and isn't committed: by subtask, in order.
        self._produced: dict[SubtaskId, list[StagedToken]] = defaultdict(list)

    def run(self) -> str:
        job, productions = self._job, self._job._productions
        # Else the workers of a zombie would take the logs over from those of its successor.
        job._transactions.check()
        allotted = self._first_transactions()
        start = ProductionStart(
            store=None,
            checkpoint=None,
            transaction="",
            attempt=self._name,
            has_script=job._has_script or job._graph.plan.graph.is_bounded,
            disk=productions.disk,
            directory=job.logs,
            allotted=dict.fromkeys(job._subtasks, ("",)) | allotted,
            keeps_transaction=self._is_published_at_end,
            weak=weak_tasks(job._graph, productions.delivery),
            drops_duplicates=productions.drops_duplicates,
            group_commit=productions.group_commit,
        )
        job._observations.restored(None)
        job._workers.start(job._graph, start)
        if job._has_script:
            self._settle()
        while True:
            for subtask, report in job._workers.poll(self._patience()):
                done = self._hear(subtask, report)
                if done is not None:
                    return done
            if self._look():
                return PipelineState.CANCELLED

    def _new_transaction(self, id: SubtaskId) -> str:
        """One for a subtask, whose transactions are committed in the order of their numbers."""
        self._count += 1
        return f"{self._count:012d}-{self._name}-{id.task}-{id.index}"

    def _first_transactions(self) -> dict[SubtaskId, tuple[str, ...]]:
        transactions = self._job._transactions
        self._left_open = list(transactions.open)
        allotted: dict[SubtaskId, tuple[str, ...]]
        if self._is_published_at_end:
            # The one that was begun before, if there is one.
            transaction = next(iter(transactions.open), None) or self._name
            allotted = dict.fromkeys(self._writing, (transaction,))
        else:
            allotted = {id: tuple(self._new_transaction(id) for _ in range(ALLOTTED)) for id in self._writing}
        new: dict[str, frozenset[str]] = {}
        for id, own in allotted.items():
            for each in own:
                new[each] = new.get(each, frozenset()) | self._writing[id]
        transactions.begin_all(new)
        self._left_open = [each for each in self._left_open if each not in new]
        return allotted

    # What is due

    def _look(self) -> bool:
        job, now = self._job, self._job._clock()
        job.look_at_requests()
        if now >= self._next_look and not self._is_final:
            self._next_look = now + 250_000
            job._observations.looked(now, job._workers.counted())
        if job._wishes & {Wish.CANCEL, Wish.STOP}:
            return True
        if Wish.DRAIN in job._wishes and not self._drained:
            self._drained = True
            job._workers.send(Drain())
        if not self._recovering:
            # From here on all logs have begun, and say everything whenever they are read.
            if job.wants_rest:
                raise RestWanted
            self._publish_produced()
        if self._is_final or (job._has_loops and self._look_at_loops(now)):
            return False
        if len(self._completed) == len(job._subtasks) and not self._recovering:
            # User code has a last chance to fail before what is published at the end is.
            self._is_final = True
            job._workers.send(Stop())
        return False

    # What is reported

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        if isinstance(report, Recovered):
            assert subtask is not None
            self._produced[subtask] = [*report.staged, *self._produced[subtask]]
            self._recovering.discard(subtask)
            if not self._recovering:
                self._clear_up()
            return None
        if isinstance(report, Produced):
            assert subtask is not None
            self.progressed = True
            self._produced[subtask] += report.staged
            return None
        return super()._hear(subtask, report)

    def _clear_up(self) -> None:
        """All logs are known: what earlier attempts have staged and isn't in one never happened."""
        transactions = self._job._transactions
        known = {transaction for own in self._produced.values() for _, transaction, _ in own}
        gone = {each for each in self._left_open if each not in known}
        transactions.abort(but=[each for each in transactions.open if each not in gone])

    def _staged(self) -> dict[str, list[tuple[str, Any]]]:
        staged: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for subtask in sorted(self._produced):
            for label, transaction, token in self._produced[subtask]:
                staged[label].append((transaction, token))
        return dict(staged)

    def _publish_produced(self) -> None:
        """Commit what is in the logs, and allot as many transactions again."""
        if self._is_published_at_end or not any(self._produced.values()):
            return
        job = self._job
        committed = job._transactions.commit(self._staged())
        # Before anybody writes down that these are committed, they are no longer written down as open.
        allotted: dict[SubtaskId, tuple[str, ...]] = {}
        for subtask, own in self._produced.items():
            count = len({transaction for _, transaction, _ in own})
            allotted[subtask] = tuple(self._new_transaction(subtask) for _ in range(count))
        job._transactions.begin_all({each: self._writing[id] for id, own in allotted.items() for each in own})
        self._produced.clear()
        job.checkpoints_completed += 1
        job._workers.send(Allot(committed, allotted))  # type: ignore[arg-type]

    def _has_stopped(self, report: Stopped) -> str | None:
        job = self._job
        self._tallies.append(report.tally)
        if len(self._tallies) < job._workers.slots:
            return None
        state = PipelineState.DRAINED if self._drained else PipelineState.DONE
        staged = self._staged()
        disk = job._productions.disk
        job._transactions.check()
        try:
            disk.write_atomically(job._ended_path, pickle.dumps((state, staged), protocol=5))
        except OSError as error:
            raise SnapshotError(f"{job._ended_path} can't be written: {error}") from error
        job._end(state, staged)
        job._observations.ended(job._clock(), self._tallies)
        return state
