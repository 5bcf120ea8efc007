"""Fork safety: a forked child must not inherit a lock that another thread holds.

A background thread works within `not_while_forking`: then a fork waits for it, and it waits for the fork.

>>> with not_while_forking():
...     pass  # print, render, respond
"""

from __future__ import annotations

import _imp
import logging  # its hook is registered before the one of this module
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Seconds that a fork waits for threads that log, and for one of them while it has locks that others may wait for.
_LOGGED_WITHIN = 2.0
_PATIENCE = 0.02

_working = threading.RLock()
# The locks of handlers of `logging` that the current fork holds.
_of_handlers: list[Any] = []
# Objects that only the parent may use.
_parents: weakref.WeakSet[Any] = weakref.WeakSet()


class _Inputs(threading.local):
    """Whether children of a thread have an empty standard input; in such a child, the one that it replaced."""

    are_empty = False
    replaced: Any = None


_inputs = _Inputs()


@contextmanager
def not_while_forking() -> Iterator[None]:
    """Prevent other threads from forking this process within the `with` block."""
    with _working:
        yield


def closed_in_children(server: Any) -> None:
    """Call `server.close()` in every forked child, so that the child doesn't keep its port."""
    _parents.add(server)


@contextmanager
def without_input() -> Iterator[None]:
    """Give children that this thread forks within the `with` block an empty standard input.

    `multiprocessing` closes that of a child, and would wait for ever while another thread of the parent reads from it,
    as a program does that waits for a key.
    """
    _inputs.are_empty = True
    try:
        yield
    finally:
        _inputs.are_empty = False


def _before() -> None:
    """Take the locks that a fork needs, in the order in which other threads take them.

    `logging` holds its lock during a fork, which then takes the lock of imports.  Another thread takes them the other
    way around: while it imports a module, which needs the lock of imports, garbage may be collected, and a handler's
    finalizer needs the lock of `logging`.  Hooks run from the last one to the first, so this one runs before that of
    `logging`.
    """
    _working.acquire()
    _of_handlers[:] = _locks_of_handlers()
    _imp.acquire_lock()


def _locks_of_handlers() -> list[Any]:
    """Take the locks of the handlers of `logging`, and return them.

    A child has new ones, but not of the file that another thread writes to meanwhile: such a file has a lock in C,
    which the child's first record would wait for.  A thread that holds a handler's lock may wait for one that this
    thread has, so none is held for long while waiting for another, and after a while a fork goes on without them.
    """
    locks = list({id(handler.lock): handler.lock for handler in _handlers() if handler.lock is not None}.values())
    until = time.monotonic() + _LOGGED_WITHIN
    contended: Any = None
    while True:
        held = []
        if contended is not None:
            remaining = until - time.monotonic()
            if remaining <= 0 or not contended.acquire(timeout=remaining):
                return []
            held.append(contended)
        for lock in locks:
            if lock is contended:
                continue
            if not lock.acquire(timeout=_PATIENCE):
                contended = lock
                break
            held.append(lock)
        else:
            return held
        for lock in held:
            lock.release()


def _handlers() -> Iterator[logging.Handler]:
    """Yield the handlers that a record may come to."""
    for logger in [logging.root, *list(logging.root.manager.loggerDict.values())]:
        for handler in list(getattr(logger, "handlers", ())):
            yield handler
            # Of a `MemoryHandler`.
            if isinstance(target := getattr(handler, "target", None), logging.Handler):
                yield target


def _release_handlers() -> None:
    for lock in _of_handlers:
        # In a child, `logging` has made most of them anew.
        with suppress(RuntimeError):
            lock.release()
    _of_handlers.clear()


def _in_parent() -> None:
    _imp.release_lock()
    _release_handlers()
    _working.release()


def _in_child() -> None:
    _in_parent()
    for each in list(_parents):
        each.close()
    _parents.clear()
    if _inputs.are_empty:
        # The old one is closed when nothing refers to it any more.
        _inputs.replaced = sys.stdin
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    # A live display replaces the streams, and its thread doesn't exist in the child.
    for name in ("stdout", "stderr"):
        proxied = getattr(getattr(sys, name), "rich_proxied_file", None)
        if proxied is not None:
            setattr(sys, name, proxied)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
