"""Waiting for servers ends when a signal asks the program to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.io.connections import waiting
from penstock.io.connections.waiting import is_stopping, patiently
from penstock.runners.local.signals import stopping_on_signals


@pytest.fixture(autouse=True)
def waits_again() -> Iterator[None]:
    yield
    waiting.wait_again()


def lost() -> None:
    raise ConnectionRefusedError("refused")


def test_a_signal_ends_a_call_that_waits() -> None:
    """Within seconds, with the error of the call; and after the run calls wait again."""
    began = time.monotonic()
    with stopping_on_signals(lambda: None):
        threading.Timer(0.3, signal.raise_signal, [signal.SIGTERM]).start()
        with pytest.raises(ConnectionRefusedError):
            patiently("Write", "server", lost)
    assert 0.3 < time.monotonic() - began < 10
    assert not is_stopping()


def test_a_call_that_succeeds_after_a_signal_is_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lost answer at this moment isn't the end."""
    answers = [lost, lost, lambda: 5]
    waiting.stop_waiting()
    assert 5 == patiently("Write", "server", lambda: answers.pop(0)())
