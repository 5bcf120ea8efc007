"""Drivers of micro-batches that die in this process, so that a test can continue with another driver."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from penstock.runners.execution.sinks.committer import SinkCommitter


class Died(Exception):
    """The driver is dead."""


def leave_open_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent a dying driver from aborting transactions."""
    abort = SinkCommitter.abort

    def alive(self: SinkCommitter, *arguments: Any, **named: Any) -> None:
        if not isinstance(sys.exc_info()[1], Died):
            abort(self, *arguments, **named)

    monkeypatch.setattr(SinkCommitter, "abort", alive)
