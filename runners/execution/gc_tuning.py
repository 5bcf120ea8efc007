"""Tuning of Python's garbage collector while a bundle is processed.

Elements are tuples and lists, and very many of them stay.  Python's collector traverses the young objects after 700 new
ones, and all objects when a quarter more have stayed: a run can spend more time on that than on its work
(docs/decisions/007-rare-garbage-collection.md).  Within a bundle it runs after 50,000 new objects instead.  It
isn't switched off, because it has to find the garbage of user code.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

# The new objects after which the young generation is collected, and the number of those collections after which the
# middle one is.
NEW_OBJECTS = 50_000
YOUNG_COLLECTIONS = 20

# The number of collections after which frozen objects are collected, too.
THOROUGH = 64

_times = count(1)

# The number of modules when those were frozen.
_frozen_modules = 0


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Within the block, collect garbage after `NEW_OBJECTS` new objects.

    If collection was switched off before, it stays off.

    >>> with rarely_collected():
    ...     gc.get_threshold()[0]
    50000
    """
    before = gc.get_threshold()
    if not 0 < before[0] < NEW_OBJECTS:
        yield
        return
    gc.set_threshold(NEW_OBJECTS, YOUNG_COLLECTIONS, before[2])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def look_rarely_for_garbage() -> None:
    """Collect rarely from now on, in a forked worker, and never collect the objects of the parent.

    Traversing those would copy the memory that it shares with its parent.
    """
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, YOUNG_COLLECTIONS, before[2])
    gc.freeze()


def set_aside() -> None:
    """Freeze the existing objects, which will stay, so that the next collections skip them.

    For state in a process where others request collections: a Spark worker collects all garbage after each task, which
    takes a third of a second for a million keys.  Young garbage is collected first, and all of it every `THOROUGH`
    times, because frozen objects that become garbage aren't found otherwise.
    """
    if next(_times) % THOROUGH:
        gc.collect(1)
    else:
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def set_modules_aside() -> None:
    """Freeze the existing objects if modules have been imported since the last call.

    To call before a task, when little but modules exists.  A Spark worker collects all garbage after each task, which
    takes 15 to 40 ms for the objects of penstock's modules and of those that they import.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        _frozen_modules = len(sys.modules)
        gc.freeze()
