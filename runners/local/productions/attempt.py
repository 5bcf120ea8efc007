"""The run of a job of producers from one start of its workers until they end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import attrs

from ....sdk.errors import StaleWriterError
from ....sdk.redaction import logger_of
from ....sdk.runner import PipelineState
from ...execution.checkpoints.control_requests import RequestKind
from ...execution.plan.execution_graph import SubtaskId
from ...execution.plan.fusion import Output
from ...execution.streaming.restored import shown_offsets
from ..job.attempt import Attempt, RestartNow
from ..job.context import JobContext
from ..job.failover_region import touching
from ..workers.processes import WorkerDied
from ..workers.protocol import Drain, Report, Rewind, Stop
from .directory import ProductionDirectory, weak_tasks
from .producer import Produced, Recovered
from .production import StagedToken, back
from .slot import Allot, ProductionStart

_logger = logger_of(__name__)

# The number of transactions that a subtask with sinks is allotted in advance.
ALLOTTED = 3


class ProductionAttempt(Attempt):
    """The run of a job of producers from one start of its workers until they end, or until the logs are merged."""

    def __init__(self, context: JobContext, directory: ProductionDirectory) -> None:
        super().__init__(context)
        self._directory = directory
        tasks = context.graph.execution.tasks
        labels = {t.id: frozenset(s.transform.label for s in t.steps if isinstance(s, Output)) for t in tasks}
        # By subtask, the labels of its sinks.
        self._writing = {id: labels[id.task] for id in context.graph.subtasks if labels[id.task]}
        self._transactions_begun = 0
        self._replacements = 0
        self._recovering = set(context.graph.subtasks)
        # The workers were told to stop before the end of the input; and one of them has died since.
        self._is_stopping = False
        self._has_died = False
        # By subtask, in order, the tokens that were reported and are not committed.
        self._produced: dict[SubtaskId, list[StagedToken]] = defaultdict(list)

    def _first_start(self) -> ProductionStart:
        context, directory = self._context, self._directory
        # Otherwise a zombie's workers could take the logs over from its successor's.
        directory.fenced.check()
        allotted = self._first_transactions()
        self._start = ProductionStart(
            store=None,
            checkpoint=None,
            transaction="",
            attempt=self._name,
            has_script=context.graph.has_script or context.graph.execution.plan.graph.is_bounded,
            disk=directory.disk,
            directory=directory.logs,
            listing=directory.listing,
            allotted=dict.fromkeys(context.graph.subtasks, ("",)) | allotted,
            keeps_transaction=context.graph.commits_at_end,
            weak=weak_tasks(context.graph.execution, directory.productions.delivery),
            group_commit=directory.productions.group_commit,
        )
        return self._start

    def _first_transactions(self) -> dict[SubtaskId, tuple[str, ...]]:
        committer = self._context.committer
        # Those whose tokens are in no log are aborted when all logs are known.
        self._open_before = list(committer.open)
        if not self._context.graph.commits_at_end:
            return self._allot(dict.fromkeys(self._writing, ALLOTTED))
        transaction = next(iter(committer.open), None) or self._name
        if self._writing:
            committer.begin_all({transaction: frozenset[str]().union(*self._writing.values())})
            self._open_before = [each for each in self._open_before if each != transaction]
        return dict.fromkeys(self._writing, (transaction,))

    def _allot(self, counts: Mapping[SubtaskId, int]) -> dict[SubtaskId, tuple[str, ...]]:
        """Begin transactions for subtasks with sinks, and return their names, which are in the order of commits."""
        allotted: dict[SubtaskId, tuple[str, ...]] = {}
        for id, count in counts.items():
            numbers = range(self._transactions_begun + 1, self._transactions_begun + count + 1)
            self._transactions_begun += count
            allotted[id] = tuple(f"{number:012d}-{self._series(id)}" for number in numbers)
        self._context.committer.begin_all({each: self._writing[id] for id, own in allotted.items() for each in own})
        return allotted

    def _series(self, id: SubtaskId) -> str:
        return f"{self._name}-{id.task}-{id.index}"

    # Replacing workers

    def _reports(self) -> list[Report]:
        try:
            return super()._reports()
        except WorkerDied as death:
            if self._is_stopping:
                # Durable output is in the logs; the next run aborts what is only staged.
                self._has_died = True
                return []
            self._replace(death)
            return []

    def _replace(self, death: WorkerDied) -> None:
        """Replace dead workers; raise the death if the whole graph has to restart.

        The other subtasks send again what the dead workers have not acknowledged, and the logs have what those had
        sent and is not acknowledged.  Scripts and loops restart as a whole: their progress is in no log.
        """
        context, workers = self._context, self._context.workers
        lost = workers.gone() | ({death.number} if death.number is not None else set())
        gone = [id for id in context.graph.subtasks if id.index % workers.slots in lost]
        is_all = not gone or len(gone) == len(context.graph.subtasks)
        if is_all or self._is_final or context.graph.has_script or context.graph.has_loops:
            raise death
        self._restart_part(gone, "resume from their logs", death, lambda: self._restart(gone, lost))

    def _restart(self, gone: list[SubtaskId], lost: frozenset[int]) -> None:
        context = self._context
        self._directory.fenced.check()
        self._replacements += 1
        self._recovering.update(gone)
        self._completed.difference_update(gone)
        for id in gone:
            # The subtask reports the tokens in its log again.
            self._produced.pop(id, None)
        allotted: dict[SubtaskId, tuple[str, ...]] = dict.fromkeys(gone, ("",))
        writing = [id for id in gone if id in self._writing]
        if context.graph.commits_at_end:
            allotted |= {id: self._start.allotted[id] for id in writing}
        else:
            series = tuple(f"-{self._series(id)}" for id in writing)
            self._open_before += [each for each in context.committer.open if series and each.endswith(series)]
            allotted |= self._allot(dict.fromkeys(writing, ALLOTTED))
        touched = touching(context.graph.execution, gone)
        channels = (*touched, *(back(id) for id in touched))
        token = context.token()
        rewind = Rewind(self._replacements, frozenset(gone), channels, None, "", token, 0, {})
        context.workers.rewind(attrs.evolve(self._start, attempt=token, allotted=allotted), rewind, lost)
        if self._drained:
            # The replaced sources would read on.
            context.workers.send(Drain())

    # Checkpoints and commits

    def _is_cancelled(self) -> bool:
        kinds = self._context.requests.kinds
        # Everything that is durable is in the logs, so a cancelled run resumes as one with a savepoint does.
        if RequestKind.CANCEL in kinds or self._has_died:
            return True
        if RequestKind.STOP in kinds and not self._is_final and not self._recovering:
            # A worker stages nothing after its last report, so output that is in no log can be aborted then.
            self._is_final = self._is_stopping = True
            self._context.workers.send(Stop())
        return False

    def _begin_next(self, now: int) -> None:
        if self._is_stopping:
            return
        if not self._recovering:
            # All logs have begun anew, so each can be read by itself.
            if self._directory.needs_quiescence:
                self._directory.is_quiescent = True
                raise RestartNow
            self._publish_produced()
        if self._is_final or self._quiescence.is_in_progress(now):
            return
        if self._is_complete and not self._recovering:
            # User code is torn down, and may fail, before anything is published.
            self._is_final = True
            self._context.workers.send(Stop())

    # Reports

    def _process(self, subtask: SubtaskId | None, report: Any) -> str | None:
        if isinstance(report, Recovered):
            assert subtask is not None
            self._produced[subtask] = [*report.staged, *self._produced[subtask]]
            self._recovering.discard(subtask)
            self._log_recovered(subtask, report)
            if not self._recovering:
                self._abort_unknown()
            return None
        if isinstance(report, Produced):
            assert subtask is not None
            self.progressed = True
            self._produced[subtask] += report.staged
            return None
        return super()._process(subtask, report)

    def _log_recovered(self, subtask: SubtaskId, report: Recovered) -> None:
        if report.productions:
            offsets = shown_offsets(report.offsets)
            _logger.info(
                "%s: %s resumes after the %d productions in its log%s",
                self._directory.path,
                subtask,
                report.productions,
                offsets and f"; {offsets}",
            )

    def _abort_unknown(self) -> None:
        """Abort transactions of earlier attempts that are in no log."""
        committer = self._context.committer
        known = {transaction for own in self._produced.values() for _, transaction, _ in own}
        gone = {each for each in self._open_before if each not in known}
        committer.abort(but=[each for each in committer.open if each not in gone])

    def _staged(self) -> dict[str, list[tuple[str, Any]]]:
        staged: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for subtask in sorted(self._produced):
            for label, transaction, token in self._produced[subtask]:
                staged[label].append((transaction, token))
        return dict(staged)

    def _publish_produced(self) -> None:
        """Commit the reported tokens, and allot as many transactions again."""
        context = self._context
        if context.graph.commits_at_end or not any(self._produced.values()):
            return
        committed = context.committer.commit(self._staged(), self._directory.decision)
        # The names of the committed transactions are removed before a subtask logs that they are committed.
        allotted = self._allot({id: len({each for _, each, _ in own}) for id, own in self._produced.items()})
        self._produced.clear()
        context.status.completed += 1
        context.workers.send(Allot(committed, allotted))  # type: ignore[arg-type]

    def _resolve_transactions(self) -> None:
        """Commit the output in the logs, and abort everything else; the next run does it if a sink fails."""
        committer = self._context.committer
        if self._context.graph.commits_at_end:
            return
        try:
            committer.commit(self._staged(), self._directory.decision)
            committer.abort()
        except StaleWriterError:
            raise
        except Exception as error:
            _logger.warning("The pipeline has stopped. Its staged output is left to the next run: %s", error)

    def _finish(self) -> str:
        context = self._context
        if self._is_stopping:
            self._resolve_transactions()
            return PipelineState.CANCELLED
        state = PipelineState.DRAINED if self._drained else PipelineState.DONE
        self._directory.end(state, self._staged())
        context.status.ended(context.clocks.time(), self._metrics)
        return state
