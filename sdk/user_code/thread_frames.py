"""Frames of other threads, which are looked at to find the step that a thread is in."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Held during a look, and whether garbage was collected before.
_looking = threading.Lock()
_was_collecting = False


@contextmanager
def frames_of(thread: int) -> Iterator[FrameType | None]:
    """Yield the innermost frame of another thread; its callers are to be looked at within the block only.

    No garbage is collected there.  Python 3.11 may collect it while it makes the object of a frame.  A finalizer lets
    the other thread return from that very frame, and the interpreter crashes.

    >>> with frames_of(threading.get_ident()) as frame:
    ...     gc.isenabled(), frame is not None
    (False, True)
    >>> gc.isenabled()
    True
    """
    global _was_collecting
    with _looking:
        _was_collecting = gc.isenabled()
        gc.disable()
        try:
            yield sys._current_frames().get(thread)
        finally:
            if _was_collecting:
                gc.enable()


def _look_no_more() -> None:
    """End the look of a thread that a child process doesn't have."""
    global _looking
    if _looking.locked():
        _looking = threading.Lock()
        if _was_collecting:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_look_no_more)
