"""A production: all that one or several steps of a subtask have done, as one record of its log.

What was taken, what has changed, and what was put out are durable together or not at all.  So a
restart finds the state with exactly the inputs that it has seen, and sends the same outputs, byte for
byte, even if the code that made them would make others now (MillWheel, section 5.3, strong productions).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from ...execution.seen_ids import KeptIds
from ...execution.unpickling import cant_be_read
from ..channel import ChannelId
from ..subtask import Heard
from ..tally import Tally

# Of a chunk of which the newest counts: its label, its kind and its key group.
ChunkKey: TypeAlias = tuple[str, str, int | None]

# What a sink has staged: its label, the transaction and the token.
StagedToken: TypeAlias = tuple[str, str, Any]


class Wire(Protocol):
    """A channel that anything may travel on."""

    def put(self, message: Any) -> None:
        """Send it."""


class Sent(NamedTuple):
    """A message with the id that it was given when it was produced.

    Attributes:
      number: greater than those before it on the channel; 0 has a barrier, which is neither kept nor sent again.
      kind, payload: the message, as it goes through a pipe.
    """

    number: int
    kind: int
    payload: bytes


class Delivery(NamedTuple):
    """What travels: messages, in order, and the least number that their sender may ever send again."""

    sent: tuple[Sent, ...]
    least: int


class Taken(NamedTuple):
    """What travels back: all up to this number is taken, durably."""

    number: int


class Production(NamedTuple):
    """One record of a log.

    Attributes:
      is_whole: whether it says everything, and what is before it doesn't matter; else, what has changed.
      chunks: of the state, as in a snapshot.
      gone: chunks that there are no longer.
      heard: what inputs have said.
      seen: by input, the ids that were taken.
      outputs: by output, what was produced, or in a whole one what isn't acknowledged.
      acknowledged: by output, the number up to which receivers have it.
      staged: what sinks have staged, or in a whole one what isn't known to be committed.
      committed: transactions that were committed meanwhile.
      tally: what was counted, from the beginning.
    """

    is_whole: bool
    chunks: bytes
    gone: tuple[ChunkKey, ...]
    heard: Heard
    seen: Mapping[ChannelId, KeptIds]
    outputs: Mapping[ChannelId, tuple[Sent, ...]]
    acknowledged: Mapping[ChannelId, int]
    staged: tuple[StagedToken, ...]
    committed: tuple[str, ...]
    tally: Tally

    def record(self) -> bytes:
        """As bytes."""
        return pickle.dumps(tuple(self), protocol=5)


class Inherited(NamedTuple):
    """What a log begins with whose subtask goes on from others: there were more of them, or fewer.

    Attributes:
      parts: of each of them its chunks, its number, and how many there were.
      staged, tally: as in a production.
    """

    parts: tuple[tuple[bytes, int, int], ...]
    staged: tuple[StagedToken, ...]
    tally: Tally

    def record(self) -> bytes:
        """As bytes."""
        return pickle.dumps((_INHERITED, *self), protocol=5)


def production_of(record: bytes) -> Production | Inherited:
    """What a record is of."""
    try:
        first, *rest = pickle.loads(record)
    except Exception as error:  # whatever a class raises, or importing it
        what = "The staged output of a sink, or the position of a source"
        raise cant_be_read(what, "the log of its productions", [], error) from error
    return Inherited(*rest) if first == _INHERITED else Production(first, *rest)


# Begins a record, where a production says whether it is whole.
_INHERITED = "inherited"


def back(id: ChannelId) -> ChannelId:
    """The channel that acknowledgements of another one take.

    >>> back(ChannelId(2, source=0, target=1))
    ChannelId(edge=-3, source=1, target=0)
    """
    return ChannelId(-1 - id.edge, id.target, id.source)
