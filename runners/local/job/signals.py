"""Signals: SIGTERM, or Ctrl-C, stops a job politely; the next one is what it would have been without us."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

# What Python does of its own accord.  Handlers that a program has set, and signals that it
# ignores, are left alone.
_OURS_TO_TAKE = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}


@contextmanager
def stopping_on_signals(
    stop: Callable[[], None], how: str = "", waits_for: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """Inside of the `with` block the first SIGTERM or SIGINT calls `stop`; a second one acts as usual.

    Afterwards all is as before.  Only the main thread hears signals: in others this does nothing.

    Args:
      how: what the user is told then, on standard error.
      waits_for: returns the steps that keep it from stopping, as far as they are known; "" if none are.

    >>> heard = []
    >>> with stopping_on_signals(lambda: heard.append("stop")):
    ...     signal.raise_signal(signal.SIGTERM)
    >>> heard
    ['stop']
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken: dict[signal.Signals, Any] = {}

    def restore() -> None:
        while taken:
            signal.signal(*taken.popitem())

    def hear(number: int, frame: FrameType | None) -> None:
        restore()
        stop()
        if how:
            # Printing could be what the signal has interrupted.
            with suppress(Exception):
                os.write(2, f"penstock: {how}; a second signal ends it at once\n".encode())
                if steps := waits_for():
                    os.write(2, f"penstock: it waits for {steps}, and the log has the stack\n".encode())

    for each, usual in _OURS_TO_TAKE.items():
        if signal.getsignal(each) == usual:
            taken[each] = usual
            signal.signal(each, hear)
    try:
        yield
    finally:
        restore()
