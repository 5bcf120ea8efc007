"""A production: the effects of one or several steps of a subtask, as one record of its log.

The ids of the inputs, the changes of state and the outputs are durable together or not at all.  So after a restart the
state reflects exactly the inputs whose ids are in the log, and the same outputs are sent, byte for byte, even if user
code would produce other ones now (MillWheel, section 5.3, strong productions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from ...execution.serialization.records import RecordType, decode_record, pickled, unpickled
from ...execution.sinks.committer import STAGED_IS_DATA, Staged, staged_as_data, staged_of
from ..channels.channel import ChannelId
from ..subtask.reports import InputState, TaskMetrics, metrics_as_data, metrics_of
from .dedup import KeptIds

# The name of a log in errors, where its path isn't known.
A_LOG = "the log of its productions"

# The label, kind and key group of a chunk that replaces its predecessor.
ChunkKey: TypeAlias = tuple[str, str, int | None]

# The label of a sink, the transaction and the staged token.
StagedToken: TypeAlias = tuple[str, str, Any]


class Wire(Protocol):
    """A channel for deliveries or acknowledgements."""

    def put(self, message: Any) -> None:
        """Send a message."""


class Sent(NamedTuple):
    """A message with the id that it got when it was produced.

    Attributes:
      number: greater than those before it on the channel; 0 for a barrier, which is neither kept nor sent again.
      kind, payload: the serialized message.
    """

    number: int
    kind: int
    payload: bytes


class Delivery(NamedTuple):
    """Messages in order, and the least number that their sender may send again."""

    sent: tuple[Sent, ...]
    least: int


class Taken(NamedTuple):
    """The acknowledgement of all messages up to this number."""

    number: int


class Production(NamedTuple):
    """One record of a log.

    Attributes:
      is_whole: it has the whole state, and replaces the records before it; otherwise it has changes.
      chunks: chunks of the state, as in a snapshot.
      gone: chunks that were removed.
      heard: the state of the inputs.
      seen: by input, the ids that were taken.
      outputs: by output, the messages that were produced; in a whole one, those that are not acknowledged.
      acknowledged: by output, the number up to which the receiver has acknowledged all messages.
      staged: the tokens that sinks have staged; in a whole one, those that are not known to be committed.
      committed: the transactions that were committed since the production before.
      metrics: the metrics since the beginning.
    """

    is_whole: bool
    chunks: bytes
    gone: tuple[ChunkKey, ...]
    heard: InputState
    seen: Mapping[ChannelId, KeptIds]
    outputs: Mapping[ChannelId, tuple[Sent, ...]]
    acknowledged: Mapping[ChannelId, int]
    staged: tuple[StagedToken, ...]
    committed: tuple[str, ...]
    metrics: TaskMetrics

    def record(self) -> bytes:
        """Return the record as bytes."""
        return _PRODUCTION.encode(
            self.is_whole,
            self.chunks,
            self.gone,
            _heard_as_data(self.heard),
            [(id, *kept) for id, kept in self.seen.items()],
            list(self.outputs.items()),
            list(self.acknowledged.items()),
            _staged_as_data(self.staged),
            self.committed,
            metrics_as_data(self.metrics),
        )


class Inherited(NamedTuple):
    """The first record of a log whose subtask inherits state from a layout with another parallelism.

    Attributes:
      parts: by subtask of that layout, its chunks, its index and the parallelism.
      staged, metrics: as in a production.
    """

    parts: tuple[tuple[bytes, int, int], ...]
    staged: tuple[StagedToken, ...]
    metrics: TaskMetrics

    def record(self) -> bytes:
        """Return the record as bytes."""
        return _INHERITED.encode(self.parts, _staged_as_data(self.staged), metrics_as_data(self.metrics))


def production_of(record: bytes, where: str = A_LOG) -> Production | Inherited:
    """Return the production, or the inherited state, of a record.

    Args:
      where: the log, for errors.

    Raises `UnknownFormatError` for a record of another version.
    """
    return decode_record(record, where, _PRODUCTION, _INHERITED)


def _heard_as_data(heard: InputState) -> tuple[Any, ...]:
    watermarks, percentiles, signals, clock = heard
    return list(watermarks.items()), [(share, list(own.items())) for share, own in percentiles.items()], signals, clock


def _heard_of(watermarks: list[Any], percentiles: list[Any], signals: int, clock: int) -> InputState:
    return InputState(
        {ChannelId(*id): micros for id, micros in watermarks},
        {share: {_heard_from(id): micros for id, micros in own} for share, own in percentiles},
        signals,
        clock,
    )


def _heard_from(id: Any) -> Any:
    """Return what a percentile watermark is of: a source, by its label, or a channel."""
    return id if type(id) is str else ChannelId(*id)


def _staged_as_data(staged: tuple[StagedToken, ...]) -> list[tuple[str, str, bytes]]:
    return [(label, transaction, pickled(token, label, STAGED_IS_DATA)) for label, transaction, token in staged]


def _staged_of(staged: list[Any]) -> tuple[StagedToken, ...]:
    what = "The staged output of a sink"
    return tuple((label, transaction, unpickled(token, what, A_LOG)) for label, transaction, token in staged)


def _production_of_fields(
    is_whole: bool,
    chunks: bytes,
    gone: list[Any],
    heard: list[Any],
    seen: list[Any],
    outputs: list[Any],
    acknowledged: list[Any],
    staged: list[Any],
    committed: list[str],
    metrics: list[Any],
) -> Production:
    return Production(
        is_whole,
        chunks,
        tuple(map(tuple, gone)),
        _heard_of(*heard),
        {ChannelId(*id): KeptIds(collected, tuple(ids)) for id, collected, ids in seen},
        {ChannelId(*id): tuple(Sent(*sent) for sent in own) for id, own in outputs},
        {ChannelId(*id): number for id, number in acknowledged},
        _staged_of(staged),
        tuple(committed),
        metrics_of(metrics),
    )


def _inherited_of_fields(parts: list[Any], staged: list[Any], metrics: list[Any]) -> Inherited:
    return Inherited(tuple(map(tuple, parts)), _staged_of(staged), metrics_of(metrics))


_PRODUCTION: RecordType[Production | Inherited] = RecordType("production", 1, {1: _production_of_fields})
_INHERITED: RecordType[Production | Inherited] = RecordType("inherited", 1, {1: _inherited_of_fields})

# The file of a job that has ended: its final state, and the tokens to publish.
_ENDED: RecordType[tuple[str, list[Any]]] = RecordType("ended", 1, {1: lambda state, staged: (state, staged)})


def encode_ended(state: str, staged: Staged) -> bytes:
    """Return the final state of a job, and the tokens to publish, as a record."""
    return _ENDED.encode(state, staged_as_data(staged))


def decode_ended(data: bytes, where: str) -> tuple[str, Staged]:
    """Return the arguments of `encode_ended`; `where` is the file, for errors."""
    state, staged = _ENDED.decode(data, where)
    return state, staged_of(staged, where)


def back(id: ChannelId) -> ChannelId:
    """Return the channel for the acknowledgements of a channel.

    >>> back(ChannelId(2, source=0, target=1))
    ChannelId(edge=-3, source=1, target=0)
    """
    return ChannelId(-1 - id.edge, id.target, id.source)
