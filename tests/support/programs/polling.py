"""A reader that looks all the time, in a thread beside a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs


@attrs.define
class Watch:
    """What a reader has seen.

    Attributes:
      looks: how often it has seen something.
      wrong: what it should not have seen.
    """

    looks: int = 0
    wrong: list[Any] = attrs.Factory(list)


@contextmanager
def watched(
    look: Callable[[], Any],
    is_wrong: Callable[[Any], bool],
    may_fail: tuple[type[Exception], ...] = (),
    pause: float = 0.05,
) -> Iterator[Watch]:
    """Look again and again within a block.

    Args:
      look: returns what there is; None for nothing yet.
      may_fail: errors of a store that is stopped.
      pause: the seconds between two looks; three times a look's own if longer.
    """
    watch, is_over = Watch(), threading.Event()

    def run() -> None:
        took = 0.0
        while not is_over.wait(min(1.0, max(pause, 3 * took))):
            began = time.monotonic()
            try:
                found = look()
            except may_fail:
                continue
            except Exception as error:
                watch.wrong.append(error)
                continue
            finally:
                took = time.monotonic() - began
            if found is not None:
                watch.looks += 1
                if is_wrong(found):
                    watch.wrong.append(found)

    looking = threading.Thread(target=run)
    looking.start()
    try:
        yield watch
    finally:
        is_over.set()
        looking.join()
