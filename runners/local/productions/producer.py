"""A producer: a subtask whose steps are durable before their effects are visible (MillWheel, section 5).

Several steps are one production: until the inputs are empty, or for a few milliseconds.  One append to the log commits
them; then their outputs are sent, their inputs acknowledged, and their staged tokens reported.

**Strong**: outputs are part of the production, and are sent after the append.  **Weak**: outputs are sent at once, and
the append waits until they are acknowledged, so they needn't be part of it.  A subtask that dies before the append
produces them again with other ids, and receivers may process them twice.  A slow receiver would delay the
acknowledgements of all tasks before it, so outputs that are not acknowledged after about a second, the *stragglers*,
are appended after all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from ....frozen import frozen
from ...execution.shuffle.blocks import encode_bundle
from ...execution.sinks.committer import by_transaction
from ...execution.sinks.errors import PRODUCTION
from ...execution.sinks.writer import OutputRun
from ...execution.streaming.in_flight import in_flight_chunks
from ...execution.streaming.snapshot_chunks import CHAINED, Chunk, records_of
from ..channels.channel import ChannelId
from ..subtask.reports import TaskMetrics, sum_of
from ..subtask.subtask import Subtask
from .dedup import KeptIds
from .log import AHEAD, ProductionLog
from .production import ChunkKey, Production, StagedToken
from .receiver import Receiver
from .replay import Replay
from .sender import Sender


@frozen
class GroupCommit:
    """How many steps one production has; times in microseconds.

    Attributes:
      steps: the greatest number of steps.
      patience: the greatest delay of an output or a report.
      laziness: the greatest delay of watermarks, positions, acknowledgements and the output of sinks.
      stragglers: the time after which the outputs of a weak production are appended.
      shortest: the size in bytes from which a log is compacted.
      ahead: the number of bytes that are allocated behind a log.
    """

    steps: int = 64
    patience: int = 5_000
    laziness: int = 20_000
    stragglers: int = 1_000_000
    shortest: int = 1 << 20
    ahead: int = AHEAD


class Recovered(NamedTuple):
    """The report that a subtask has resumed.

    Attributes:
      staged: the tokens that are not known to be committed.
      productions: the number of productions in its log.
      offsets: by source label, its partitions and their offsets, as text.
    """

    staged: tuple[StagedToken, ...]
    productions: int = 0
    offsets: Mapping[str, list[tuple[str, str]]] = {}


class Produced(NamedTuple):
    """The report that staged tokens are in the log."""

    staged: tuple[StagedToken, ...]


class _Pending(NamedTuple):
    """A production that is not durable yet.

    Attributes:
      taken: by input, the ids to acknowledge when it is durable.
      sent: by output, the number of the last message before it was cut.
      positions: the positions of sources, by label.
      reports: the reports to release when it is durable.
      since: when it was cut.
    """

    production: Production
    taken: dict[ChannelId, KeptIds]
    sent: dict[ChannelId, int]
    positions: dict[str, list[Any]]
    reports: list[Any]
    since: int


class ChunkDiff:
    """The chunks of a snapshot that have changed since the last production.

    The steps know what has changed in chained chunks.  All others replace their predecessors, and are compared with
    them by digests.

    >>> from penstock.runners.execution.streaming.snapshot_chunks import KEPT, chunks_of
    >>> diff = ChunkDiff()
    >>> same, more = Chunk("Step", KEPT, 1, ["a row"]), Chunk("Step", KEPT, 2, ["another"])
    >>> [len(list(chunks_of([data]))) for data, _ in [diff.of([same]), diff.of([same, more])]]
    [1, 1]
    >>> diff.of([more])
    (b'', (('Step', 'kept', 1),))
    """

    def __init__(self) -> None:
        self._digests: dict[ChunkKey, bytes] = {}

    def forget(self) -> None:
        """Treat all chunks as changed the next time."""
        self._digests = {}

    def of(self, chunks: Iterable[Chunk]) -> tuple[bytes, tuple[ChunkKey, ...]]:
        """Return the chunks that have changed, serialized, and the keys of those that were removed."""
        changed: list[bytes] = []
        now: dict[ChunkKey, bytes] = {}
        for chunk in chunks:
            data = b"".join(records_of([chunk]))
            if chunk.kind not in CHAINED:
                key = chunk.label, chunk.kind, chunk.group
                digest = now[key] = blake2b(data, digest_size=16).digest()
                if self._digests.get(key) == digest:
                    continue
            changed.append(data)
        gone = tuple(key for key in self._digests if key not in now)
        self._digests = now
        return b"".join(changed), gone


class Producer:
    """One subtask, its ends of channels and its log.

    Args:
      parallelism: the parallelism of the task.
      log: the subtask's log, which this process owns.
      metrics: the subtask's metrics.
      clock: returns microseconds since 1970.
      release: called with each report of the subtask when it is durable.
      allotted: the transactions that its sinks may write in; the sinks are open for the first.
      keeps_transaction: its sinks write in that transaction until the end.
      is_weak: its productions are weak.

    Attributes:
      stragglers: the number of weak productions that were appended with outputs that were not acknowledged.
    """

    def __init__(
        self,
        subtask: Subtask,
        parallelism: int,
        receivers: Mapping[ChannelId, Receiver],
        senders: Mapping[ChannelId, Sender],
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
        self._receivers = receivers
        self._senders = senders
        self._log = log
        self._metrics = metrics
        self._clock = clock
        self._release = release
        self._transaction, *spare = allotted
        self._spare = deque(spare)
        self._keeps_transaction = keeps_transaction
        self._is_weak = is_weak
        self._settings = settings
        self._diff = ChunkDiff()
        self._pending: deque[_Pending] = deque()
        # Since the last production.
        self._reports: list[Any] = []
        self._fresh: list[StagedToken] = []
        self._committed: list[str] = []
        self._steps = 0
        self._since: int | None = None
        # The tokens that are not known to be committed.
        self._staged: list[StagedToken] = []
        # By output of a weak task, the number up to which messages are in the log.
        self._written: dict[ChannelId, int] = {}
        self._whole_length = 0

    def report(self, news: Any) -> None:
        """Keep a report of the subtask until it is durable."""
        self._reports.append(news)

    def start(self, replay: Replay) -> None:
        """Resume at the end of a log; then begin the next log, and send again messages that are not acknowledged."""
        self._metrics.add(replay.metrics)
        for id, receiver in self._receivers.items():
            receiver.restore(replay.seen(id))
        for id, sender in self._senders.items():
            sender.restore(replay.kept(id), replay.acknowledged.get(id, 0))
        staged = tuple(replay.staged)
        self._staged = replay.staged
        self.subtask.start(replay.restored(self.subtask.id.index, self._parallelism), replay.heard)
        self._stage()
        pending = self._begin_log()
        # Tokens that were staged by the start are reported with the pending production.
        self._release(
            Recovered(staged, replay.productions, self.subtask.snapshots.offsets() if replay.productions else {})
        )
        for sender in self._senders.values():
            sender.send_again()
        self._is_durable(pending)
        for sender in self._senders.values():
            sender.holds = not self._is_weak

    # Steps

    def step(self) -> bool:
        """Do one step of the subtask, or commit its steps.  Returns whether anything was done."""
        if self.subtask.step():
            self._steps += 1
            self.look(is_idle=False)
            return True
        return self.look(is_idle=True)

    def look(self, is_idle: bool) -> bool:
        """Commit the steps if that is due.  Returns whether anything was done."""
        now = self._clock()
        done = False
        if self._is_due(is_idle, now) and self._stage():
            self._pending.append(self._cut(False, now))
            done = True
        return self._append_pending(now) or done

    def _is_due(self, is_idle: bool, now: int) -> bool:
        senders = self._senders.values()
        taken = sum(receiver.has_taken for receiver in self._receivers.values())
        has_tables = self.subtask.has_tables
        if not (self._steps or taken or self._reports or has_tables or any(sender.has_news for sender in senders)):
            return False
        if self._since is None:
            self._since = now
        settings = self._settings
        waited = now - self._since
        if self._reports or has_tables or any(sender.has_more for sender in senders):
            return is_idle or self._steps >= settings.steps or waited >= settings.patience
        return taken >= settings.steps or waited >= settings.laziness

    def next_time(self) -> int | None:
        """Return when a commit is due, in microseconds since 1970; None if there is nothing to commit."""
        times = [] if self._since is None else [self._since + self._settings.laziness]
        if self._pending:
            times.append(self._pending[0].since + self._settings.stragglers)
        return min(times, default=None)

    # Sinks

    def allot(self, transaction: str) -> None:
        """Allot a transaction to the sinks."""
        self._spare.append(transaction)

    def committed(self, transactions: Collection[str]) -> None:
        """Record that transactions are committed."""
        own = {transaction for _, transaction, _ in self._staged if transaction in transactions}
        self._committed += sorted(own)
        self._staged = [token for token in self._staged if token[1] not in own]

    def _stage(self) -> bool:
        """Let the sinks stage their elements.  Returns False if there is no transaction to continue in."""
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
            self._transaction = self._spare.popleft()
            for output in outputs:
                output.next(self._transaction)
        return True

    def _precommit(self, outputs: Iterable[OutputRun]) -> None:
        """Precommit the staged tokens: those in the log must be committed."""
        staged = [*self._staged, *self._fresh]
        with PRODUCTION.precommitting():
            for output in outputs:
                own = [(transaction, token) for label, transaction, token in staged if label == output.label]
                output.precommit(by_transaction(own, ()))

    # Productions

    def _cut(self, is_whole: bool, now: int) -> _Pending:
        """Return a production of the steps since the last one, or a whole one of all the state."""
        # Elements in a table are in no state, and their inputs are acknowledged with this production.
        self.subtask.flush_tables(is_forced=True)
        if is_whole:
            self._diff.forget()
        chunks, positions = self.subtask.snapshots.chunks(is_whole)
        chunks += self._rests()
        data, gone = self._diff.of(chunks)
        gone = () if is_whole else gone
        fresh, self._fresh = self._fresh, []
        self._staged += fresh
        committed, self._committed = self._committed, []
        reports, self._reports = self._reports, []
        if fresh:
            reports = [Produced(tuple(fresh)), *reports]
        taken = {id: receiver.taken() for id, receiver in self._receivers.items()}
        senders = self._senders.items()
        production = Production(
            is_whole,
            data,
            gone,
            self.subtask.input_state(),
            {id: receiver.kept() for id, receiver in self._receivers.items()} if is_whole else taken,
            {id: (*sender.kept(), *sender.held()) if is_whole else sender.held() for id, sender in senders},
            {id: sender.acknowledged for id, sender in senders},
            tuple(self._staged if is_whole else fresh),
            tuple(committed),
            sum_of([self._metrics]),
        )
        self._steps, self._since = 0, None
        if self._is_weak:
            for sender in self._senders.values():
                sender.cut()
        return _Pending(production, taken, {id: sender.last for id, sender in senders}, positions, reports, now)

    def _rests(self) -> list[Chunk]:
        """Return the rests of messages of which the steps have taken a part, whose ids are in the production."""
        chunks: list[Chunk] = []
        for edge in self.subtask.task.inputs:
            rests = [receiver.rest() for id, receiver in self._receivers.items() if id.edge == edge.id]
            blocks = [block for rest in rests if rest is not None for block in encode_bundle(rest)]
            chunks += in_flight_chunks(self.subtask.execution.plan, edge, blocks)
        return chunks

    def _append_pending(self, now: int) -> bool:
        """Append the pending productions that are due.  Returns whether there were any."""
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
        return all(sender.acknowledged >= pending.sent[id] for id, sender in self._senders.items())

    def _with_stragglers(self, pending: _Pending) -> _Pending:
        """Return the production with its outputs that are not acknowledged."""
        outputs = {
            id: tuple(sent for sent in sender.kept() if self._written.get(id, 0) < sent.number <= pending.sent[id])
            for id, sender in self._senders.items()
        }
        self._written = pending.sent
        self.stragglers += any(outputs.values())
        acknowledged = {id: sender.acknowledged for id, sender in self._senders.items()}
        production = pending.production._replace(outputs=outputs, acknowledged=acknowledged)
        return pending._replace(production=production)

    def _begin_log(self) -> _Pending:
        """Replace the log by one whole production."""
        pending = self._cut(True, self._clock())
        self._written = pending.sent
        self._log.begin([pending.production.record()])
        self._whole_length = self._log.length
        return pending

    def _is_durable(self, pending: _Pending) -> None:
        """Send, acknowledge and report what a durable production has."""
        for sender in self._senders.values():
            if sender.holds:
                sender.release()
        for id, taken in pending.taken.items():
            self._receivers[id].commit(taken)
        for reader in self.subtask.readers:
            reader.acknowledge(pending.positions[reader.label])
        for report in pending.reports:
            self._release(report)
