"""Signals: the first SIGTERM or Ctrl-C stops a job gracefully; the next one acts as usual."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ...io.connections.waiting import stop_waiting, wait_again

# Python's default handlers, which are replaced.  A program's own handlers, and ignored signals, stay.
_DEFAULTS = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}


@contextmanager
def stopping_on_signals(
    stop: Callable[[], None], how: str = "", stuck_steps: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT inside of the `with` block; a second signal acts as usual.

    Only the main thread receives signals: in other threads this does nothing.

    Args:
      how: what the signal does, for a message on standard error; "" for no message.
      stuck_steps: returns the steps that delay the stop, or "".

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
        # A commit may wait for a server that doesn't answer.
        stop_waiting()
        if how:
            # The signal may have interrupted a print.
            with suppress(Exception):
                os.write(2, f"penstock: {how}; a second signal ends it at once\n".encode())
                if steps := stuck_steps():
                    os.write(2, f"penstock: it waits for {steps}, and the log has the stack\n".encode())

    for each, usual in _DEFAULTS.items():
        if signal.getsignal(each) == usual:
            taken[each] = usual
            signal.signal(each, hear)
    try:
        yield
    finally:
        restore()
        wait_again()
