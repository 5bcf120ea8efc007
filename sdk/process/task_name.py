"""The name of the running task, from which DoFns derive the keys of their worker.

Spark runs a task again after a failure, and tasks that have read the first attempt's output stay as they are.  What a
task computes must then be the same in each attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from uuid import uuid4

_name: ContextVar[str | None] = ContextVar("task_name", default=None)


@contextmanager
def task_named(name: str) -> Iterator[None]:
    """Give the task that runs within the block a name, which its attempts share and no other task has."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


def is_task_named() -> bool:
    """Return True if the runner has named the running task."""
    return _name.get() is not None


def worker_id() -> bytes:
    """Return 16 bytes that identify the running task, or this caller where the runner names no tasks.

    >>> with task_named("the third"):
    ...     worker_id() == worker_id()
    True
    >>> worker_id() == worker_id()
    False
    """
    name = _name.get()
    return uuid4().bytes if name is None else blake2b(name.encode(), digest_size=16).digest()
