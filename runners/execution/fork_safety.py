"""Fork safety: a forked child must not inherit a lock that another thread holds.

A background thread works within `not_while_forking`: then a fork waits for it, and it waits for the fork.

>>> with not_while_forking():
...     pass  # print, render, respond
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
# Objects that only the parent may use.
_parents: weakref.WeakSet[Any] = weakref.WeakSet()


@contextmanager
def not_while_forking() -> Iterator[None]:
    """Prevent other threads from forking this process within the `with` block."""
    with _working:
        yield


def closed_in_children(server: Any) -> None:
    """Call `server.close()` in every forked child, so that the child doesn't keep its port."""
    _parents.add(server)


def _in_child() -> None:
    _working.release()
    for each in list(_parents):
        each.close()
    _parents.clear()
    # A live display replaces the streams, and its thread doesn't exist in the child.
    for name in ("stdout", "stderr"):
        proxied = getattr(getattr(sys, name), "rich_proxied_file", None)
        if proxied is not None:
            setattr(sys, name, proxied)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_working.acquire, after_in_parent=_working.release, after_in_child=_in_child)
