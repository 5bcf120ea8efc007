"""An edge at work in the subtask where it begins: which elements go to which subtask, and in what frames.

What goes through a shuffle may wait for more of it, so that frames have about a thousand records even if bundles are
small: during a subtask's turn, which ends when there is nothing more to take, and within milliseconds.  Whatever is
told to all, watermarks and barriers among it, comes behind all elements that were sent before it.  So nothing waits
here when a snapshot is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ....sdk.bundle import Bundle, expanded
from ....windowing.timestamp import MAX_MICROS
from ...execution.plan.execution_graph import Edge, EdgeKind
from ...execution.shuffle.partitioner import Partitioner
from ...execution.shuffle.pre_aggregation import PreAggregation
from ...execution.time_slice import TimeSlice
from .channel import Channel
from .messages import Elements, Message, WatermarkMoved
from .spilling_queue import SpillingQueue

# So many records for each channel aren't kept waiting for more.
FRAME = 1_000


class Exchange:
    """Sends what one subtask puts on an edge.

    Args:
      channels: one to each subtask of the edge's end; of a FORWARD edge the one with the same number.
      label: the step that made the elements, for errors.
      time_slice: the worker's, for folding; None if each bundle is folded to its end.

    Attributes:
      gathers: whether elements may wait for more of them.
    """

    def __init__(
        self, edge: Edge, channels: Sequence[Channel], label: str, time_slice: TimeSlice | None = None
    ) -> None:
        self.edge = edge
        self.channels = channels
        self.gathers = False
        # Whether accumulators may travel in the place of elements.
        self._folds = True
        self._partitioner = Partitioner(len(channels), label)
        is_shuffle = edge.kind is EdgeKind.SHUFFLE
        self._pre_aggregation = PreAggregation.of(edge.step, time_slice) if is_shuffle else None
        self._watermark: int | None = None
        self._has_spoken = False
        # What waits for more, and how many elements that is.
        self._waiting: list[Bundle] = []
        self._count = 0
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
        elif self.edge.kind is not EdgeKind.SHUFFLE:
            for channel in self.channels:
                channel.put(Elements(bundle))
        else:
            self._waiting.append(bundle)
            self._count += len(bundle)
            if not self.gathers or self._count >= FRAME * len(self.channels):
                self.flush()

    def flush(self) -> None:
        """Send what waits for more."""
        if not self._waiting:
            return
        waiting, self._waiting, self._count = self._waiting, [], 0
        for channel, part in self._parts(waiting):
            channel.put(Elements(part))

    def _parts(self, waiting: Sequence[Bundle]) -> Iterator[tuple[Channel, Bundle]]:
        """What each channel gets of elements that go through a shuffle together."""
        bundle = waiting[0] if len(waiting) == 1 else joined(waiting)
        for sent in self._folded(bundle):
            parts = [sent] if len(self.channels) == 1 else self._partitioner.parts(sent)
            yield from ((channel, part) for channel, part in zip(self.channels, parts, strict=True) if len(part))

    def _folded(self, bundle: Bundle) -> Sequence[Bundle]:
        """Return what is sent in the place of a bundle: its accumulators, then what was not folded in time."""
        if self._pre_aggregation is None or not self._folds:
            return (bundle,)
        folded = self._pre_aggregation.folded(bundle)
        left, self._pre_aggregation.left = self._pre_aggregation.left, None
        return (folded,) if left is None else (folded, left)

    def move(self, watermark: int | None) -> None:
        """Say how far the watermark is, if that is news; None when this subtask has nothing to say about it."""
        if not self._has_spoken or watermark != self._watermark:
            self._has_spoken = True
            self._watermark = watermark
            self.tell(WatermarkMoved(watermark))
            if watermark == MAX_MICROS and self._pre_aggregation is not None:
                self._pre_aggregation.teardown()

    def tell(self, message: Message) -> None:
        """Send a message to all."""
        if self._overflow is not None:
            self._back(message)
            return
        self.flush()
        for channel in self.channels:
            channel.put(message)


def joined(bundles: Sequence[Bundle]) -> Bundle:
    """Several bundles as one.

    >>> joined([Bundle(["a"], 5), Bundle(["b"], [6])]).timestamps
    [5, 6]
    """
    rest = (_joined([getattr(bundle, name) for bundle in bundles], bundles) for name in _COLUMNS)
    return Bundle(list(chain.from_iterable(bundle.values for bundle in bundles)), *rest)


_COLUMNS = ("timestamps", "windows", "panes", "signs")


def _joined(columns: list[Any], bundles: Sequence[Bundle]) -> Any:
    first = columns[0]
    if all(type(column) is not list and column == first for column in columns):
        return first
    return list(chain.from_iterable(expanded(column, len(b)) for column, b in zip(columns, bundles, strict=True)))
