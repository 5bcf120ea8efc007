"""A producer: a subtask whose every step is durable before anybody hears of it (MillWheel, section 5).

Several steps are one production: until there is nothing more to take, or for a few milliseconds.  They are committed
by one append to the log; then their outputs are sent, their inputs acknowledged, and what they have
staged is reported.

**Strong**: outputs are in the production, and wait for it.  **Weak**: outputs are sent at once, and
the production waits until they are acknowledged; so it needn't hold them.  Whoever dies before makes them
again, with other ids: receivers may get them twice, which is for what comes behind to bear.  A slow
receiver would have everybody before it wait, too; so outputs that aren't acknowledged after about a second, the
stragglers, are written down after all, and the inputs are acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from ...execution.sinks.committer import by_transaction
from ...execution.sinks.errors import PRODUCTION
from ...execution.sinks.writer import OutputRun
from ..channels.channel import ChannelId
from ..subtask.reports import TaskMetrics, sum_of
from ..subtask.subtask import Subtask
from .chunk_diff import Differences
from .dedup import KeptIds
from .log import AHEAD, ProductionLog
from .production import Production, StagedToken
from .receiver import Inbox
from .replay import Replay
from .sender import Outbox


@attrs.frozen
class GroupCommit:
    """How many steps become one production; times in microseconds.

    Attributes:
      steps: at most, while there is something to take.
      patience: for so long at most, where somebody waits for an output.
      laziness: for so long, where nobody does: watermarks, positions and acknowledgements, and what sinks publish.
      stragglers: after so long the outputs of a weak production are written down.
      shortest: a log is not made shorter before it has so many bytes.
      ahead: by how many bytes a log's file is longer than the log.
    """

    steps: int = 64
    patience: int = 5_000
    laziness: int = 20_000
    stragglers: int = 1_000_000
    shortest: int = 1 << 20
    ahead: int = AHEAD


class Recovered(NamedTuple):
    """A subtask goes on; this was staged and isn't known to be committed.

    Attributes:
      productions: how many were in its log.
      offsets: by source label, its partitions and where they stand, as text.
    """

    staged: tuple[StagedToken, ...]
    productions: int = 0
    offsets: Mapping[str, list[tuple[str, str]]] = {}


class Produced(NamedTuple):
    """This was staged, and is in the log."""

    staged: tuple[StagedToken, ...]


class _Pending(NamedTuple):
    """A production of which nobody has heard yet.

    Attributes:
      taken: by input, the ids that are acknowledged when it is durable.
      sent: by output, the number of the last message that was put out before it was made.
      positions: of sources, by label.
      reports: what may be said when it is durable.
      since: when it was made.
    """

    production: Production
    taken: dict[ChannelId, KeptIds]
    sent: dict[ChannelId, int]
    positions: dict[str, list[Any]]
    reports: list[Any]
    since: int


class Producer:
    """One subtask, its ends of channels and its log.

    Args:
      parallelism: how many subtasks its task has.
      log: its own, which it has taken over, and nobody has begun.
      metrics: what the subtask counts in.
      clock: microseconds since 1970.
      release: called with each report of the subtask, when all that it says is durable.
      allotted: transactions that its sinks may write in, of which they have begun with the first.
      keeps_transaction: whether its sinks stay in that one.
      is_weak: see above.

    Attributes:
      stragglers: how many productions were written down with outputs that weren't acknowledged.
    """

    def __init__(
        self,
        subtask: Subtask,
        parallelism: int,
        inboxes: Mapping[ChannelId, Inbox],
        outboxes: Mapping[ChannelId, Outbox],
        log: ProductionLog,
        metrics: TaskMetrics,
        clock: Callable[[], int],
        release: Callable[[Any], None],
        allotted: Sequence[str],
        keeps_transaction: bool,
        is_weak: bool,
        settings: GroupCommit,
    ) -> None:
        self.subtask = subtask
        self.stragglers = 0
        self._parallelism = parallelism
        self._inboxes = inboxes
        self._outboxes = outboxes
        self._log = log
        self._metrics = metrics
        self._clock = clock
        self._release = release
        self._transaction, *spare = allotted
        self._spare = deque(spare)
        self._keeps_transaction = keeps_transaction
        self._is_weak = is_weak
        self._settings = settings
        self._differences = Differences()
        self._pending: deque[_Pending] = deque()
        # Since the last production was made.
        self._reports: list[Any] = []
        self._fresh: list[StagedToken] = []
        self._committed: list[str] = []
        self._steps = 0
        self._since: int | None = None
        # What was staged and isn't known to be committed.
        self._staged: list[StagedToken] = []
        # Of a weak one's outputs, by channel, up to which number they are in the log.
        self._written: dict[ChannelId, int] = {}
        self._whole_length = 0

    def report(self, news: Any) -> None:
        """The subtask reports something, of which nobody hears before it is durable."""
        self._reports.append(news)

    def start(self, replay: Replay) -> None:
        """Go on where a log ends; then begin the next log, and send again what isn't acknowledged."""
        self._metrics.add(replay.metrics)
        for id, inbox in self._inboxes.items():
            inbox.restore(replay.seen(id))
        for id, outbox in self._outboxes.items():
            outbox.restore(replay.kept(id), replay.acknowledged.get(id, 0))
        staged = tuple(replay.staged)
        self._staged = replay.staged
        self.subtask.start(replay.restored(self.subtask.id.index, self._parallelism), replay.heard)
        self._stage()
        pending = self._begin_log()
        # What was staged meanwhile is reported as what else is produced.
        self._release(
            Recovered(staged, replay.productions, self.subtask.snapshots.offsets() if replay.productions else {})
        )
        for outbox in self._outboxes.values():
            outbox.send_again()
        self._is_durable(pending)
        for outbox in self._outboxes.values():
            outbox.holds = not self._is_weak

    # Steps

    def step(self) -> bool:
        """Do the next thing: one of the subtask's, or commit what it has done; whether anything was done."""
        if self.subtask.step():
            self._steps += 1
            self.look(is_idle=False)
            return True
        return self.look(is_idle=True)

    def look(self, is_idle: bool) -> bool:
        """Commit what has been done, if it is time; whether anything was."""
        now = self._clock()
        done = False
        if self._is_due(is_idle, now) and self._stage():
            self._pending.append(self._cut(False, now))
            done = True
        return self._append_pending(now) or done

    def _is_due(self, is_idle: bool, now: int) -> bool:
        outboxes = self._outboxes.values()
        taken = sum(inbox.has_taken for inbox in self._inboxes.values())
        if not (self._steps or taken or self._reports or any(outbox.has_news for outbox in outboxes)):
            return False
        if self._since is None:
            self._since = now
        settings = self._settings
        waited = now - self._since
        if self._reports or any(outbox.has_more for outbox in outboxes):
            return is_idle or self._steps >= settings.steps or waited >= settings.patience
        return taken >= settings.steps or waited >= settings.laziness

    def next_time(self) -> int | None:
        """By when something has to be committed, in microseconds since 1970; None if nothing waits for it."""
        times = [] if self._since is None else [self._since + self._settings.laziness]
        if self._pending:
            times.append(self._pending[0].since + self._settings.stragglers)
        return min(times, default=None)

    # Sinks

    def allot(self, transaction: str) -> None:
        """Its sinks may write in one more transaction."""
        self._spare.append(transaction)

    def committed(self, transactions: Collection[str]) -> None:
        """What was staged in these is committed."""
        own = {transaction for _, transaction, _ in self._staged if transaction in transactions}
        self._committed += sorted(own)
        self._staged = [token for token in self._staged if token[1] not in own]

    def _stage(self) -> bool:
        """Have the sinks stage what they were given; False if there is no transaction to go on in."""
        outputs = self.subtask.execution.outputs
        if not any(output.has_written for output in outputs):
            return True
        if not self._keeps_transaction and not self._spare:
            return False
        for output in outputs:
            output.stage()
            self._fresh += [(output.label, self._transaction, token) for token in output.staged]
            output.staged = []
        if not self._keeps_transaction:
            self._precommit(outputs)
        if not self._keeps_transaction:
            self._transaction = self._spare.popleft()
            for output in outputs:
                output.next(self._transaction)
        return True

    def _precommit(self, outputs: Iterable[OutputRun]) -> None:
        """Find out whether what was staged can be published: what is in the log has to be."""
        staged = [*self._staged, *self._fresh]
        with PRODUCTION.precommitting():
            for output in outputs:
                own = [(transaction, token) for label, transaction, token in staged if label == output.label]
                output.precommit(by_transaction(own, ()))

    # Productions

    def _cut(self, is_whole: bool, now: int) -> _Pending:
        """A production of all that was done since the last one; or of all that there is."""
        if is_whole:
            self._differences.forget()
        chunks, positions = self.subtask.snapshots.chunks(is_whole)
        data, gone = self._differences.of(chunks)
        # A whole one has no need to say what is gone.
        gone = () if is_whole else gone
        fresh, self._fresh = self._fresh, []
        self._staged += fresh
        committed, self._committed = self._committed, []
        reports, self._reports = self._reports, []
        if fresh:
            reports = [Produced(tuple(fresh)), *reports]
        taken = {id: inbox.taken() for id, inbox in self._inboxes.items()}
        outboxes = self._outboxes.items()
        production = Production(
            is_whole,
            data,
            gone,
            self.subtask.input_state(),
            {id: inbox.kept() for id, inbox in self._inboxes.items()} if is_whole else taken,
            {id: (*outbox.kept(), *outbox.held()) if is_whole else outbox.held() for id, outbox in outboxes},
            {id: outbox.acknowledged for id, outbox in outboxes},
            tuple(self._staged if is_whole else fresh),
            tuple(committed),
            sum_of([self._metrics]),
        )
        self._steps, self._since = 0, None
        if self._is_weak:
            for outbox in self._outboxes.values():
                outbox.cut()
        return _Pending(production, taken, {id: outbox.last for id, outbox in outboxes}, positions, reports, now)

    def _append_pending(self, now: int) -> bool:
        """Append what needn't wait any longer; whether there was anything."""
        done = False
        while self._pending:
            pending = self._pending[0]
            if self._is_weak:
                is_late = now - pending.since >= self._settings.stragglers
                if not is_late and not self._is_acknowledged(pending):
                    break
                pending = self._with_stragglers(pending)
            self._log.append(pending.production.record())
            self._pending.popleft()
            self._is_durable(pending)
            done = True
        is_long = self._log.length > max(self._settings.shortest, 4 * self._whole_length)
        if is_long and not self._pending and self._stage():
            self._is_durable(self._begin_log())
        return done

    def _is_acknowledged(self, pending: _Pending) -> bool:
        return all(outbox.acknowledged >= pending.sent[id] for id, outbox in self._outboxes.items())

    def _with_stragglers(self, pending: _Pending) -> _Pending:
        """The production, with those of its outputs that nobody has acknowledged."""
        outputs = {
            id: tuple(sent for sent in outbox.kept() if self._written.get(id, 0) < sent.number <= pending.sent[id])
            for id, outbox in self._outboxes.items()
        }
        self._written = pending.sent
        self.stragglers += any(outputs.values())
        acknowledged = {id: outbox.acknowledged for id, outbox in self._outboxes.items()}
        production = pending.production._replace(outputs=outputs, acknowledged=acknowledged)
        return pending._replace(production=production)

    def _begin_log(self) -> _Pending:
        """Begin the log anew with all that there is."""
        pending = self._cut(True, self._clock())
        self._written = pending.sent
        self._log.begin([pending.production.record()])
        self._whole_length = self._log.length
        return pending

    def _is_durable(self, pending: _Pending) -> None:
        """A production is in the log: tell everybody."""
        for outbox in self._outboxes.values():
            if outbox.holds:
                outbox.release()
        for id, taken in pending.taken.items():
            self._inboxes[id].commit(taken)
        for reader in self.subtask.readers:
            reader.acknowledge(pending.positions[reader.label])
        for report in pending.reports:
            self._release(report)
