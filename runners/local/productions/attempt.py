"""From one start of a job's producers to their end: sinks are committed behind productions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from ....sdk.errors import SnapshotError, StaleWriterError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ...execution.plan.execution_graph import SubtaskId
from ...execution.plan.fusion import Output
from ...execution.streaming.restored import shown_offsets
from ..job.attempt import Attempt
from ..job.control_requests import Wish
from ..job.failover_region import touching
from ..workers.pool import WorkerDied
from ..workers.protocol import Drain, Report, Rewind, Stop
from .delivery import weak_tasks
from .producer import Produced, Recovered
from .production import StagedToken, back, encode_ended
from .slot import Allot, ProductionStart

if TYPE_CHECKING:
    from .job import ProductionJob

_logger = logger_of(__name__)

# How many transactions a subtask with sinks has in advance.
ALLOTTED = 3


class RestWanted(Exception):
    """All logs are to be read at once: nobody may be writing."""


class ProductionAttempt(Attempt):
    """From one start of the workers to their end, or until all subtasks have to be at rest."""

    _job: ProductionJob

    def __init__(self, job: ProductionJob) -> None:
        super().__init__(job)
        self._is_published_at_end = job._commits_at_end
        tasks = job._graph.tasks
        labels = {t.id: frozenset(s.transform.label for s in t.steps if isinstance(s, Output)) for t in tasks}
        # By subtask, the labels of its sinks.
        self._writing = {id: labels[id.task] for id in job._subtasks if labels[id.task]}
        self._count = 0
        self._replacements = 0
        self._recovering = set(job._subtasks)
        # Whether the workers have been told to stop before the end; and whether one of them has died of it.
        self._is_stopping = False
        self._has_died = False
        # What was reported and isn't committed: by subtask, in order.
        self._produced: dict[SubtaskId, list[StagedToken]] = defaultdict(list)

    def _first_start(self) -> ProductionStart:
        job, productions = self._job, self._job._productions
        # Else the workers of a zombie would take the logs over from those of its successor.
        job._fenced.check()
        allotted = self._first_transactions()
        self._start = ProductionStart(
            store=None,
            checkpoint=None,
            transaction="",
            attempt=self._name,
            has_script=job._has_script or job._graph.plan.graph.is_bounded,
            disk=productions.disk,
            directory=job.logs,
            listing=job.listing,
            allotted=dict.fromkeys(job._subtasks, ("",)) | allotted,
            keeps_transaction=self._is_published_at_end,
            weak=weak_tasks(job._graph, productions.delivery),
            group_commit=productions.group_commit,
        )
        return self._start

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
            allotted = self._allotted(self._writing)
        new: dict[str, frozenset[str]] = {}
        for id, own in allotted.items():
            for each in own:
                new[each] = new.get(each, frozenset()) | self._writing[id]
        transactions.begin_all(new)
        self._left_open = [each for each in self._left_open if each not in new]
        return allotted

    def _allotted(self, ids: Iterable[SubtaskId]) -> dict[SubtaskId, tuple[str, ...]]:
        return {id: tuple(self._new_transaction(id) for _ in range(ALLOTTED)) for id in ids}

    # Some start again, and the others go on

    def _reports(self) -> list[Report]:
        try:
            return super()._reports()
        except WorkerDied as death:
            if self._is_stopping:
                # All that is durable is in the logs; only what is staged beside stays, for the next start to remove.
                self._has_died = True
                return []
            self._replace(death)
            return []

    def _replace(self, death: WorkerDied) -> None:
        """Have others take the places of workers that are gone; raises their death if everybody has to start again.

        What was sent to them and isn't acknowledged is sent again to those; what they had sent and nobody has taken is
        in their logs.  Of scripts and loops the job knows who has done what, and that is not in any log.
        """
        job, workers = self._job, self._job._workers
        lost = workers.gone() | ({death.number} if death.number is not None else set())
        gone = [id for id in job._subtasks if id.index % workers.slots in lost]
        if not gone or len(gone) == len(job._subtasks) or self._is_final or job._has_script or job._has_loops:
            raise death
        wait = job.after_failure(self)
        self.progressed = False
        if wait is None:
            raise death
        _logger.warning(
            "the pipeline failed, and %d of its %d subtasks go on from their logs in %.1f seconds: %s",
            len(gone),
            len(job._subtasks),
            wait,
            death,
        )
        job._observations.restarted(str(death))
        job.wait_for_restart(wait)
        try:
            self._start_again(gone, lost)
        except StaleWriterError:
            raise
        except Exception as why:
            _logger.warning("these can't be restarted, so all are: %s", why)
            raise death from why

    def _start_again(self, gone: list[SubtaskId], lost: frozenset[int]) -> None:
        job = self._job
        job._fenced.check()
        self._replacements += 1
        self._recovering.update(gone)
        self._completed.difference_update(gone)
        allotted: dict[SubtaskId, tuple[str, ...]] = dict.fromkeys(gone, ("",))
        for id in gone:
            # What of this is in its log, it reports.
            self._produced.pop(id, None)
        writing = [id for id in gone if id in self._writing]
        if self._is_published_at_end:
            allotted |= {id: self._start.allotted[id] for id in writing}
        else:
            series = tuple(f"-{self._name}-{id.task}-{id.index}" for id in writing)
            self._left_open += [each for each in job._transactions.open if series and each.endswith(series)]
            new = self._allotted(writing)
            job._transactions.begin_all({each: self._writing[id] for id, own in new.items() for each in own})
            allotted |= new
        touched = touching(job._graph, gone)
        channels = (*touched, *(back(id) for id in touched))
        token = job._token()
        rewind = Rewind(self._replacements, frozenset(gone), channels, None, "", token, 0, {})
        start = attrs.evolve(self._start, attempt=token, allotted=allotted)
        job._workers.rewind(start, rewind, lost)
        if self._drained:
            # Who begins anew would go on reading.
            job._workers.send(Drain())

    # What is due

    def _is_cancelled(self) -> bool:
        # All that is durable is in the logs: it is as good as with a savepoint.
        job = self._job
        if Wish.CANCEL in job._wishes or self._has_died:
            return True
        if Wish.STOP in job._wishes and not self._is_final and not self._recovering:
            # Behind the last report of a worker nothing is staged, so that what is in no log can be removed.
            self._is_final = self._is_stopping = True
            job._workers.send(Stop())
        return False

    def _begin_what_is_due(self, now: int) -> None:
        job = self._job
        if self._is_stopping:
            return
        if not self._recovering:
            # From here on all logs have begun, and say everything whenever they are read.
            if job.wants_rest:
                raise RestWanted
            self._publish_produced()
        if self._is_final or self._settling.look(now):
            return
        if self._is_complete and not self._recovering:
            # User code has a last chance to fail before what is published at the end is.
            self._is_final = True
            job._workers.send(Stop())

    # What is reported

    def _hear(self, subtask: SubtaskId | None, report: Any) -> str | None:
        if isinstance(report, Recovered):
            assert subtask is not None
            self._produced[subtask] = [*report.staged, *self._produced[subtask]]
            self._recovering.discard(subtask)
            self._log_recovered(subtask, report)
            if not self._recovering:
                self._clear_up()
            return None
        if isinstance(report, Produced):
            assert subtask is not None
            self.progressed = True
            self._produced[subtask] += report.staged
            return None
        return super()._hear(subtask, report)

    def _log_recovered(self, subtask: SubtaskId, report: Recovered) -> None:
        if report.productions:
            offsets = shown_offsets(report.offsets)
            _logger.info(
                "%s: %s resumes after the %d productions in its log%s",
                self._job._productions.directory,
                subtask,
                report.productions,
                offsets and f"; {offsets}",
            )

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
        committed = job._transactions.commit(self._staged(), job.decision)
        # Before anybody writes down that these are committed, they are no longer written down as open.
        allotted: dict[SubtaskId, tuple[str, ...]] = {}
        for subtask, own in self._produced.items():
            count = len({transaction for _, transaction, _ in own})
            allotted[subtask] = tuple(self._new_transaction(subtask) for _ in range(count))
        job._transactions.begin_all({each: self._writing[id] for id, own in allotted.items() for each in own})
        self._produced.clear()
        job.checkpoints_completed += 1
        job._workers.send(Allot(committed, allotted))  # type: ignore[arg-type]

    def _leave_nothing_staged(self) -> None:
        """Commit what is in the logs, and remove what else was staged; the next start does it where a sink fails."""
        transactions = self._job._transactions
        if self._is_published_at_end:
            return
        try:
            transactions.commit(self._staged(), self._job.decision)
            transactions.abort()
        except StaleWriterError:
            raise
        except Exception as error:
            _logger.warning("the pipeline has stopped; its staged results stay for the next start: %s", error)

    def _finish(self) -> str:
        job = self._job
        if self._is_stopping:
            self._leave_nothing_staged()
            return PipelineState.CANCELLED
        state = PipelineState.DRAINED if self._drained else PipelineState.DONE
        staged = self._staged()
        disk = job._productions.disk
        job._fenced.check()
        job._transactions.precommit(staged, job.decision)
        try:
            disk.write_atomically(job._ended_path, encode_ended(state, staged))
        except OSError as error:
            raise SnapshotError(f"{job._ended_path} can't be written: {error}") from error
        job._end(state, staged)
        job._observations.ended(job.now(), self._tallies)
        return state
