"""PageFeed: how often a job tells its open page of its status."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.runners.execution.page.event_log import Events
from penstock.runners.execution.page.feed import PageFeed
from penstock.sdk.options import PipelineOptions


class Busy:
    """A subject whose status takes a while to sum up."""

    requests: tuple[str, ...] = ()
    limits: Mapping[str, str] = {}

    def __init__(self, seconds: float) -> None:
        self.events = Events()
        self._seconds = seconds

    def graph(self) -> dict[str, Any]:
        return {}

    def status(self) -> dict[str, Any]:
        until = time.thread_time() + self._seconds
        while time.thread_time() < until:
            pass
        return {"summed up": True}

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        pass

    def profile(self, number: int, seconds: float) -> None:
        raise NotImplementedError

    def request(self, kind: str, number: int) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(("takes", "pauses"), [(0.0, (0.9, 2.5)), (0.002, (1.9, 4.9)), (0.05, (4.9, 5.1))])
def test_a_status_takes_a_small_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, takes: float, pauses: tuple[float, float]
) -> None:
    """Each second in a small job, and seldom in a large one; to a page that has just been opened, at once."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(0.0)
        feed: Any = PageFeed(Busy(takes), PipelineOptions())
        feed._socket = ours
        now = 100.0
        clocks = SimpleNamespace(monotonic=lambda: now, thread_time=time.thread_time)
        monkeypatch.setattr("penstock.runners.execution.page.feed.time", clocks)
        feed._obey({"kind": "observe", "is_open": True, "step": None, "key": None})
        sent = []
        for tick in range(60):
            now = 100.0 + tick / 10
            feed._send_news(is_last=False)
            try:
                lines = theirs.recv(1 << 16).splitlines()
            except BlockingIOError:
                lines = []
            sent += [now for line in lines if json.loads(line)["kind"] == "status"]
        assert 100.0 == sent[0]
        least, most = pauses
        assert least <= sent[1] - sent[0] <= most
        feed._socket = None
