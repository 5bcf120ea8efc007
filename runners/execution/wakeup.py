"""Wakeup: a flag that ends the wait of a worker's thread for its pipes."""

from __future__ import annotations

import os
import selectors
import weakref
from contextlib import suppress


class Wakeup:
    """A flag that other threads set, and one thread waits for, alone or together with its pipes.

    >>> wakeup = Wakeup()
    >>> wakeup.set(); wakeup.wait(10); wakeup.wait(0)
    True
    False
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        weakref.finalize(self, _close, self._reading, self._writing)
        self._is_set = False
        self._selector: selectors.BaseSelector | None = None

    def fileno(self) -> int:
        """Return the descriptor that is readable while the flag is set."""
        return self._reading

    def set(self) -> None:
        """Set the flag."""
        if not self._is_set:
            self._is_set = True
            # A full pipe is readable.
            with suppress(BlockingIOError):
                os.write(self._writing, b"\0")

    def clear(self) -> None:
        """Clear the flag: called before the thread looks for what has happened."""
        with suppress(BlockingIOError):
            os.read(self._reading, 64)
        self._is_set = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the flag is set, at most `seconds`, and clear it; return False if it isn't set."""
        if self._selector is None:
            self._selector = selectors.DefaultSelector()
            self._selector.register(self._reading, selectors.EVENT_READ)
        is_set = bool(self._selector.select(seconds))
        if is_set:
            self.clear()
        return is_set


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)
