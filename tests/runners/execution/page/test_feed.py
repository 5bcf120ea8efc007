"""PageFeed: how often a job tells its open page of its status."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

import pytest
from support.execution.thread_clock import ThreadClock

from penstock.runners.execution.page import feed
from penstock.runners.execution.page.event_log import Events
from penstock.runners.execution.page.feed import PageFeed
from penstock.sdk.options import PipelineOptions

# A status takes these seconds of the thread, and is followed by the next one after so many.
AFTER = {0.0: 1.0, 0.0005: 1.0, 0.002: 2.0, 0.004: 4.0, 1.0: 5.0}


class Busy(ThreadClock):
    """A subject whose status takes a while to sum up, and the clock."""

    requests: tuple[str, ...] = ()
    limits: Mapping[str, str] = {}

    def __init__(self, took: float) -> None:
        super().__init__()
        self.events = Events()
        self._took = took

    def graph(self) -> dict[str, Any]:
        return {}

    def status(self) -> dict[str, Any]:
        self.spent += self._took
        return {"summed up": True}

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        pass

    def profile(self, number: int, seconds: float) -> None:
        raise AssertionError

    def request(self, kind: str, number: int) -> None:
        raise AssertionError


@pytest.mark.parametrize("took", AFTER)
def test_a_status_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch, took: float) -> None:
    """Each second in a small job, and seldom in a large one; a page that has just been opened is told at once."""
    busy = Busy(took)
    monkeypatch.setattr(feed, "time", busy)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        own: Any = PageFeed(busy, PipelineOptions())
        own._socket = ours

        def told() -> list[str]:
            own._send_news(is_last=False)
            theirs.settimeout(0.0)
            try:
                return [json.loads(line)["kind"] for line in theirs.recv(1 << 16).splitlines()]
            except BlockingIOError:
                return []

        assert [] == told()
        own._obey({"kind": "observe", "is_open": True, "step": None, "key": None})
        assert ["status"] == told()
        busy.now += AFTER[took] - 0.001
        assert [] == told()
        busy.now += 0.002
        assert ["status"] == told()
        own._obey({"kind": "observe", "is_open": False, "step": None, "key": None})
        busy.now += 60.0
        assert [] == told()
        own._obey({"kind": "observe", "is_open": True, "step": None, "key": None})
        assert ["status"] == told()
