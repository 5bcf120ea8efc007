"""An edge at work in the subtask where it begins: which elements go to which subtask."""

from __future__ import annotations

from collections.abc import Sequence

from ...sdk.bundle import Bundle
from ..execution.execution_graph import Edge, EdgeKind
from ..execution.partitioning import Partitioner
from .channel import Channel
from .messages import Elements, Message, WatermarkMoved
from .spilling_queue import SpillingQueue


class Exchange:
    """Sends what one subtask puts on an edge.

    Args:
      channels: one to each subtask of the edge's end; of a FORWARD edge the one with the same number.
      label: the step that made the elements, for errors.
    """

    def __init__(self, edge: Edge, channels: Sequence[Channel], label: str) -> None:
        self.edge = edge
        self.channels = channels
        self._partitioner = Partitioner(len(channels), label)
        self._watermark: int | None = None
        self._has_spoken = False
        # If whoever is in a loop waited for its head, and that for them, all would wait for ever.
        self._overflow = SpillingQueue() if edge.kind is EdgeKind.BACK else None

    @property
    def is_full(self) -> bool:
        """Whether somebody is behind."""
        return self._overflow is None and any(channel.is_full for channel in self.channels)

    def pump(self) -> None:
        """Move on what waits on a back-edge, as far as there is room."""
        if self._overflow is not None:
            (channel,) = self.channels
            while self._overflow and not channel.is_full:
                channel.put(self._overflow.take())

    def _back(self, message: Message) -> None:
        assert self._overflow is not None
        self._overflow.put(message)
        self.pump()

    def send(self, bundle: Bundle) -> None:
        """Send elements on their way."""
        if self._overflow is not None:
            self._back(Elements(bundle))
            return
        if self.edge.kind is not EdgeKind.SHUFFLE:
            for channel in self.channels:
                channel.put(Elements(bundle))
            return
        if len(self.channels) == 1:
            self.channels[0].put(Elements(bundle))
            return
        for channel, part in zip(self.channels, self._partitioner.parts(bundle), strict=True):
            if len(part):
                channel.put(Elements(part))

    def move(self, watermark: int | None) -> None:
        """Say how far the watermark is, if that is news; None when this subtask has nothing to say about it."""
        if not self._has_spoken or watermark != self._watermark:
            self._has_spoken = True
            self._watermark = watermark
            self.tell(WatermarkMoved(watermark))

    def tell(self, message: Message) -> None:
        """Send a message to all."""
        if self._overflow is not None:
            self._back(message)
            return
        for channel in self.channels:
            channel.put(message)
