"""Frames of other threads, which are looked at to find the step that a thread is in."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Held during a look.  When a frame is given back, a finalizer of user code may run, and look, too, in the same thread:
# for the step whose metric it reports.
_looking = threading.RLock()
# Whether garbage was collected before the look, and how many looks are within each other.
_was_collecting = False
_depth = 0


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
    global _depth, _was_collecting
    with _looking:
        # In this order a child that is forked in between collects garbage as before.
        if _depth == 0:
            _was_collecting = gc.isenabled()
        _depth += 1
        gc.disable()
        try:
            yield sys._current_frames().get(thread)
        finally:
            if _depth == 1 and _was_collecting:
                gc.enable()
            _depth -= 1


def _look_no_more() -> None:
    """End the look of a thread that a child process doesn't have."""
    global _depth, _looking
    _looking = threading.RLock()
    if _depth:
        _depth = 0
        if _was_collecting:
            gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_look_no_more)
