"""A queue that spills to disk what memory shouldn't hold."""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from typing import IO

from ...execution.shuffle.blocks import decode_bundle, encode_bundle
from .messages import Elements, Message

# So many messages are kept in memory, at the front.
_IN_MEMORY = 256


class SpillingQueue:
    """First in, first out, with no limit but the disk's.

    >>> queue = SpillingQueue()
    >>> for n in range(1_000):
    ...     queue.put(n)
    >>> [queue.take() for _ in range(1_000)] == list(range(1_000)), bool(queue)
    (True, False)
    """

    def __init__(self) -> None:
        self._front: deque[Message] = deque()
        # What comes after it: where in the file, and how long.
        self._spilled: deque[tuple[int, int, bool]] = deque()
        self._file: IO[bytes] | None = None

    def __bool__(self) -> bool:
        return bool(self._front or self._spilled)

    def __len__(self) -> int:
        return len(self._front) + len(self._spilled)

    def put(self, message: Message) -> None:
        """Add a message at the end."""
        if not self._spilled and len(self._front) < _IN_MEMORY:
            self._front.append(message)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-loop-")  # noqa: SIM115
        if isinstance(message, Elements):
            for block in encode_bundle(message.bundle):
                self._write(block, True)
        else:
            self._write(pickle.dumps(message, protocol=5), False)

    def _write(self, data: bytes, is_elements: bool) -> None:
        assert self._file is not None
        at = self._file.seek(0, 2)
        self._file.write(data)
        self._spilled.append((at, len(data), is_elements))

    def take(self) -> Message:
        """The first message.  Raises `IndexError` if there is none."""
        if self._front:
            return self._front.popleft()
        at, length, is_elements = self._spilled.popleft()
        assert self._file is not None
        self._file.seek(at)
        data = self._file.read(length)
        if not self._spilled:
            self._file.truncate(0)
        return Elements(decode_bundle(data)) if is_elements else pickle.loads(data)
