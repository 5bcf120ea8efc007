"""An exchange: sends a subtask's output of an edge to the subtasks of the next task, in frames.

In a shuffle small bundles wait for each other during a subtask's turn, so that frames have about a thousand records; a
turn ends within milliseconds.  Watermarks, barriers and whatever else is broadcast follow all elements that were sent
before.  So the buffer is empty when a snapshot is taken.

Before a combining grouping elements are folded into a table, which is sent before whatever the receivers could see the
difference by (`pre_aggregation.py`); it is empty when a snapshot is taken, too.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import IO

from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle, joined
from ....windowing.timestamp import MAX_MICROS
from ...execution.clock import StepClock
from ...execution.plan.execution_graph import Edge, EdgeKind
from ...execution.shuffle.blocks import decode_bundle, encode_bundle
from ...execution.shuffle.partitioner import Partitioner
from ...execution.shuffle.pre_aggregation import PATIENCE, PreAggregation
from .channel import MANY_ELEMENTS, Channel
from .messages import Elements, Message, Origin, WatermarkMoved

# Records for each channel at which the buffer is sent.
FRAME = 1_000

# Messages of a spilling queue that are kept in memory, at its front.
_IN_MEMORY = 256


class Exchange:
    """Sends the output of one subtask on one edge.

    Args:
      channels: one to each subtask at the edge's end; of a FORWARD edge the one with the same number.
      label: the step that made the elements, for errors.
      step_clock: the worker's; None if each bundle is folded to its end.
      is_timed: true if processing time passes by itself, and tables may wait.

    Attributes:
      is_buffering: true while small bundles wait for each other.
    """

    def __init__(
        self,
        edge: Edge,
        channels: Sequence[Channel],
        label: str,
        step_clock: StepClock | None = None,
        is_timed: bool = False,
    ) -> None:
        self.edge = edge
        self.channels = channels
        self.is_buffering = False
        # Whether accumulators may be sent in the place of elements.
        self._folds = True
        self._partitioner = Partitioner(len(channels), label)
        is_shuffle = edge.kind is EdgeKind.SHUFFLE
        self._pre_aggregation = PreAggregation.of(edge.step, step_clock) if is_shuffle else None
        self._is_timed = is_timed
        # Elements that the subtask has taken and sent; of older ones half.
        self._taken = self._sent = 0
        self._watermark: int | None = None
        self._has_emitted = False
        self._buffer: list[Bundle] = []
        self._count = 0
        # A subtask in a loop that waited for the loop's head, which waits for it, would wait for ever.
        self._overflow = SpillingQueue() if edge.kind is EdgeKind.BACK else None

    @property
    def is_full(self) -> bool:
        """True if some receiver is behind."""
        return self._overflow is None and any(channel.is_full for channel in self.channels)

    @property
    def room(self) -> int | None:
        """About how many elements the subtask may take before some receiver is behind; None if that needs no limit.

        For each of the last elements it has sent so many: filters, windows and tables send fewer than they take.
        """
        if self._overflow is not None:
            return None
        rooms = [room for channel in self.channels if (room := channel.room) is not None]
        if not rooms:
            return None
        may_send = min(rooms) * (len(self.channels) if self.edge.kind is EdgeKind.SHUFFLE else 1)
        # What is in the buffer will be sent, or folded into the table.
        sent = self._sent + (0 if self.folds else self._count)
        return may_send * (self._taken + 1) // (sent + 1)

    def took(self, elements: int) -> None:
        """Count elements that the subtask has taken, of which it sends something or nothing."""
        self._taken += elements
        while self._taken > MANY_ELEMENTS:
            self._taken //= 2
            self._sent //= 2

    def pump(self) -> None:
        """Send what has overflowed on a back-edge, as far as there is room."""
        if self._overflow is not None:
            (channel,) = self.channels
            while self._overflow and not channel.is_full:
                channel.put(self._overflow.take())

    def overflowed(self) -> tuple[list[Bundle], int]:
        """Return what waits for room on a back-edge: the bundles in memory, and the bytes of those on disk."""
        return ([], 0) if self._overflow is None else (self._overflow.bundles(), self._overflow.spilled_bytes)

    def _send_back(self, message: Message) -> None:
        assert self._overflow is not None
        self._overflow.put(message)
        self.pump()

    def send(self, bundle: Bundle) -> None:
        """Send elements, or add them to the buffer."""
        if self._overflow is not None:
            self._send_back(Elements(bundle))
        elif self.edge.kind is not EdgeKind.SHUFFLE:
            self._sent += len(bundle)
            for channel in self.channels:
                self._put(channel, bundle, None)
        else:
            self._buffer.append(bundle)
            self._count += len(bundle)
            if not self.is_buffering or self._count >= FRAME * len(self.channels):
                self.flush()

    def flush(self) -> None:
        """Send what is in the buffer, or fold it into the table."""
        buffer, self._buffer, self._count = self._buffer, [], 0
        for are_columns, bundles in groupby(buffer, lambda bundle: self.folds and isinstance(bundle, ColumnBundle)):
            # Columns are folded bundle by bundle.
            for together in ([bundle] for bundle in bundles) if are_columns else (list(bundles),):
                self._add(together, None)

    def _add(self, bundles: Sequence[Bundle], origin: Origin | None) -> None:
        """Send some bundles of a shuffle, or fold them into the table."""
        bundle = joined(bundles)
        fold = self._pre_aggregation
        rest: Bundle | None = bundle
        if fold is not None and self._folds:
            rest = fold.add(bundle, origin)
            # While the edge is idle, it holds no watermark back.
            if rest is not None or fold.is_full or (self._has_emitted and self._watermark is None):
                self.flush_table()
        if rest is not None:
            self._send_parts(rest, origin)

    def _send_parts(self, bundle: Bundle, origin: Origin | None) -> None:
        self._sent += len(bundle)
        parts = [bundle] if len(self.channels) == 1 else self._partitioner.parts(bundle)
        for channel, part in zip(self.channels, parts, strict=True):
            if len(part):
                self._put(channel, part, origin)

    def _put(self, channel: Channel, bundle: Bundle, origin: Origin | None) -> None:
        channel.put(Elements(bundle))

    @property
    def folds(self) -> bool:
        """True if elements may be folded before they are sent."""
        return self._pre_aggregation is not None

    @property
    def has_table(self) -> bool:
        """True if elements wait in a table."""
        return bool(self._pre_aggregation)

    def flush_table(self) -> None:
        """Send what the table holds."""
        if self._pre_aggregation is not None:
            for origin, folded in self._pre_aggregation.take():
                self._send_parts(folded, origin)

    def has_waited(self, now: int) -> bool:
        """Return True if the table has waited for its time; asked after each turn, in microseconds."""
        fold = self._pre_aggregation
        if not fold:
            return False
        if fold.waits_since is None:
            fold.waits_since = now
        patience = PATIENCE if self._watermark is None else fold.patience(self._watermark)
        # Without a clock panes shouldn't depend on how fast this machine is.
        return now - fold.waits_since >= patience or (patience == PATIENCE and not self._is_timed)

    def emit_watermark(self, watermark: int | None) -> None:
        """Broadcast the watermark if it has changed; None when the edge is idle."""
        if not self._has_emitted or watermark != self._watermark:
            self._has_emitted = True
            self._watermark = watermark
            self.broadcast(WatermarkMoved(watermark))
            if watermark == MAX_MICROS:
                self.teardown()

    def teardown(self) -> None:
        """Tear down the combiner that elements are folded with."""
        if self._pre_aggregation is not None:
            self._pre_aggregation.teardown()

    def broadcast(self, message: Message) -> None:
        """Send a message on every channel."""
        if self._overflow is not None:
            self._send_back(message)
            return
        self.flush()
        if self._pre_aggregation:
            micros = message.micros if isinstance(message, WatermarkMoved) else None
            if micros is None or self._pre_aggregation.matters(micros):
                self.flush_table()
        for channel in self.channels:
            channel.put(message)


class SpillingQueue:
    """First-in, first-out queue of messages that spills to disk, with no limit but the disk's.

    >>> queue = SpillingQueue()
    >>> for n in range(1_000):
    ...     queue.put(n)
    >>> [queue.take() for _ in range(1_000)] == list(range(1_000)), bool(queue)
    (True, False)
    """

    def __init__(self) -> None:
        self._front: deque[Message] = deque()
        # Position in the file, length, and whether it is elements, of each message behind the front.
        self._spilled: deque[tuple[int, int, bool]] = deque()
        self._file: IO[bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self._front or self._spilled)

    def bundles(self) -> list[Bundle]:
        """Return the elements in memory."""
        return [message.bundle for message in self._front if isinstance(message, Elements)]

    @property
    def spilled_bytes(self) -> int:
        """The bytes of the elements on disk."""
        return sum(length for _, length, is_elements in self._spilled if is_elements)

    def put(self, message: Message) -> None:
        """Add a message at the end."""
        if not self._spilled and len(self._front) < _IN_MEMORY:
            self._front.append(message)
        elif isinstance(message, Elements):
            for block in encode_bundle(message.bundle):
                self._spill(block, True)
        else:
            self._spill(pickle.dumps(message, protocol=5), False)

    def _spill(self, data: bytes, is_elements: bool) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-loop-")  # noqa: SIM115
        at = self._file.seek(0, 2)
        self._file.write(data)
        self._spilled.append((at, len(data), is_elements))

    def take(self) -> Message:
        """Take the first message.  Raises `IndexError` if there is none."""
        if self._front:
            return self._front.popleft()
        at, length, is_elements = self._spilled.popleft()
        assert self._file is not None
        self._file.seek(at)
        data = self._file.read(length)
        if not self._spilled:
            self._file.truncate(0)
        return Elements(decode_bundle(data)) if is_elements else pickle.loads(data)
