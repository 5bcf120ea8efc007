"""The replay of a log: the state of a subtask after its last production."""

from __future__ import annotations

from collections.abc import Iterable

from ...execution.streaming.snapshot import Restored
from ...execution.streaming.snapshot_chunks import CHAINED, Chunk, Origin, chunks_of
from ..channels.channel import ChannelId
from ..subtask.reports import InputState, TaskMetrics
from .dedup import KeptIds, SeenIds
from .production import ChunkKey, Inherited, Production, Sent, StagedToken, production_of

_A_LOG = Origin("the log of its productions")


class Replay:
    """The state after the productions of a log, which are given the oldest first.

    Attributes:
      productions: the number of productions.
      heard: the state of the inputs.
      acknowledged: by output, the number up to which the receiver has acknowledged all messages.
      staged: the staged tokens that are not known to be committed.
      metrics: the metrics.
    """

    def __init__(self, records: Iterable[bytes]) -> None:
        self.productions = 0
        self.heard: InputState | None = None
        self.acknowledged: dict[ChannelId, int] = {}
        self.staged: list[StagedToken] = []
        self.metrics = TaskMetrics()
        self._chained: list[Chunk] = []
        self._newest: dict[ChunkKey, Chunk] = {}
        self._seen: dict[ChannelId, SeenIds] = {}
        self._outputs: dict[ChannelId, list[Sent]] = {}
        # Until a whole production replaces it.
        self._inherited: tuple[tuple[bytes, int, int], ...] = ()
        for record in records:
            entry = production_of(record)
            self._add(entry) if isinstance(entry, Production) else self._inherit(entry)

    def _inherit(self, inherited: Inherited) -> None:
        self.productions += 1
        self._inherited = inherited.parts
        self.staged, self.metrics = list(inherited.staged), inherited.metrics

    def _add(self, production: Production) -> None:
        self.productions += 1
        if production.is_whole:
            self._inherited = ()
            self._chained, self._newest, self._seen, self._outputs, self.staged = [], {}, {}, {}, []
        for key in production.gone:
            del self._newest[key]
        for chunk in chunks_of([production.chunks], _A_LOG):
            if chunk.kind in CHAINED:
                self._chained.append(chunk)
            else:
                self._newest[chunk.label, chunk.kind, chunk.group] = chunk
        self.heard = production.heard
        for id, kept in production.seen.items():
            seen = self._seen.setdefault(id, SeenIds())
            for number in kept.ids:
                seen.add(number)
            seen.collect(kept.collected)
        for id, outputs in production.outputs.items():
            self._outputs.setdefault(id, []).extend(outputs)
        self.acknowledged.update(production.acknowledged)
        committed = set(production.committed)
        self.staged = [token for token in self.staged if token[1] not in committed]
        self.staged += production.staged
        self.metrics = production.metrics

    def restored(self, index: int, parallelism: int) -> Restored | None:
        """Return the state to restore, or None if there were no productions."""
        if not self.productions:
            return None
        restored = Restored(index, parallelism)
        for chunks, old_index, old_parallelism in self._inherited:
            restored.add([chunks_of([chunks], _A_LOG)], old_index, old_parallelism)
        restored.add([self._chained, list(self._newest.values())], index, parallelism)
        return restored

    def chunks(self) -> list[Chunk]:
        """Return the state as a part of a snapshot, with inherited chunks that no subtask has restored yet."""
        inherited = [chunk for chunks, _, _ in self._inherited for chunk in chunks_of([chunks], _A_LOG)]
        return [*inherited, *self._chained, *self._newest.values()]

    @property
    def outputs(self) -> list[ChannelId]:
        """The output channels."""
        return list(self._outputs)

    def seen(self, id: ChannelId) -> KeptIds:
        """Return the ids that were taken on an input."""
        return self._seen[id].kept() if id in self._seen else KeptIds(0, ())

    def kept(self, id: ChannelId) -> list[Sent]:
        """Return the messages to send again on an output."""
        acknowledged = self.acknowledged.get(id, 0)
        return [sent for sent in self._outputs.get(id, ()) if sent.number > acknowledged]
