"""Threads that stand beside a job which forks: the child must not inherit a lock that one of them holds.

Whoever works in such a thread does so within `not_while_forking`: then a fork waits for it, and it for the fork.

>>> with not_while_forking():
...     pass  # print, render, answer somebody
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_working = threading.RLock()
# What only the parent may use.
_parents: weakref.WeakSet[Any] = weakref.WeakSet()


@contextmanager
def not_while_forking() -> Iterator[None]:
    """Inside of the `with` block this process isn't forked by another thread."""
    with _working:
        yield


def closed_in_children(server: Any) -> None:
    """Have `server.close()` called in every forked child, so that the child doesn't keep its port."""
    _parents.add(server)


def _in_child() -> None:
    _working.release()
    for each in list(_parents):
        each.close()
    _parents.clear()
    # A live display puts itself before the streams; its thread is not here.
    for name in ("stdout", "stderr"):
        proxied = getattr(getattr(sys, name), "rich_proxied_file", None)
        if proxied is not None:
            setattr(sys, name, proxied)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_working.acquire, after_in_parent=_working.release, after_in_child=_in_child)
