"""How often Python looks for cyclic garbage while a bundle is worked on.

Elements are tuples and lists, and very many of them stay.  Python's collector goes through
the young ones whenever there are 700 new ones, and through all when a quarter more have
stayed: a run can spend more time on that than on its work
(docs/decisions/007-garbage-is-looked-for-rarely.md).  Within a bundle it is asked to come
after 50,000 instead.  It isn't switched off, since it has to find what user code leaves behind.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

# After how many new objects the young ones are gone through, and after how many times that
# those of middle age are, too.
NEW_OBJECTS = 50_000
YOUNG_COLLECTIONS = 20

# Every how many times what was set aside is gone through after all.
THOROUGH = 64

_times = count(1)


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Within, garbage is looked for after `NEW_OBJECTS` new objects; never, if that was switched off before.

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
    """The same from now on, in a process that was forked to work; what it was born with isn't gone through at all.

    Going through it would copy the memory that it shares with its parent.
    """
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, YOUNG_COLLECTIONS, before[2])
    gc.freeze()


def set_aside() -> None:
    """Have whoever looks for garbage next pass over what is here now, which will stay.

    For state in a process in which others ask for it: a Spark worker looks through everything after each
    task, which takes a third of a second for a million keys.  Young garbage is taken out first, and every
    `THOROUGH` times all of it, since what becomes garbage while it is set aside isn't found otherwise.
    """
    if next(_times) % THOROUGH:
        gc.collect(1)
    else:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
