"""MessageSink: the base class of sinks whose messages are part of a checkpoint, and are published when it is complete.

A worker keeps its messages in its token, in compressed blocks.  A message has an id, which is the same in each attempt
to publish it: a broker or a reader drops doubles by it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from ...frozen import frozen
from ...sdk.elements.bundle import Bundle
from ...sdk.sink import SinkContext, SinkWriter
from .opened_sink import OpenedSink
from .record_blocks import BlockWriter, records_of


class Publishing(Protocol):
    """A broker as one transform writes to it."""

    def messages(self, bundle: Bundle) -> Iterable[tuple[Any, ...]]:
        """Return the messages of a bundle's elements, of text, bytes, numbers, dicts and None.

        Raises `SinkError` for an element that isn't one, and `RejectedRecordError` for one that the broker refuses.
        """

    def publish(self, messages: Iterable[tuple[Any, ...]], transaction: str) -> None:
        """Publish messages, each with its id before it.  They can be iterated over again."""


T = TypeVar("T", bound=Publishing)


class MessageSink(OpenedSink[T]):
    """Messages of a broker."""

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _MessageWriter(self.opened(context))

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        if any(staged):
            self.opened(context).publish(_StagedMessages([token for token in staged if token]), context.transaction)

    def abort(self, context: SinkContext) -> None:
        """Do nothing: nothing of a transaction is outside its tokens before its commit."""


@frozen
class _StagedMessages:
    """The messages of tokens."""

    tokens: Sequence[tuple[str, Sequence[Any]]]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for id, blocks in self.tokens:
            for number, message in enumerate(records_of(blocks)):
                yield f"{id}-{number}", *message


class _MessageWriter(SinkWriter[Any]):
    """Writer that keeps a worker's messages in its token."""

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing
        self._messages = BlockWriter()

    def write(self, bundle: Bundle) -> None:
        for message in self._publishing.messages(bundle):
            self._messages.add(message)

    def stage(self) -> Any:
        blocks = self._messages.blocks()
        # The ids of the messages begin with it.
        return (uuid.uuid4().hex, blocks) if blocks else None

    def discard(self) -> None:
        self._messages = BlockWriter()
