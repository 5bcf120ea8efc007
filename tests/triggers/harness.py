"""A window operator without windows, values or panes: it drives one trigger and reports when it fires.

A script is a list of steps for a few windows, each with a name and an end:

    ("element", window, value)  an element comes
    ("bundle", window, n)       a bundle comes
    ("watermark", seconds)      a clock moves
    ("processing_time", seconds)
    ("percentile", share, seconds)
    ("signal", name)
    ("merge", windows, window, end)   windows become one
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import attrs

from penstock.triggers import Trigger

SECOND = 1_000_000


@attrs.define
class Clocks:
    """The clocks that all windows share."""

    watermark: int = -(10**15)
    processing_time: int = 0
    percentiles: dict[float, int] = attrs.field(factory=dict)
    signals: dict[str, int] = attrs.field(factory=dict)


@attrs.define
class Context:
    """The context of the trigger of one window."""

    clocks: Clocks
    end_of_window: int

    @property
    def watermark(self) -> int:
        return self.clocks.watermark

    @property
    def processing_time(self) -> int:
        return self.clocks.processing_time

    def percentile_watermark(self, percentile: float) -> int:
        return max(self.watermark, self.clocks.percentiles.get(percentile, self.watermark))

    def signalled(self, name: str) -> int:
        return self.clocks.signals.get(name, 0)

    def size_of(self, element: Any) -> int:
        return len(element)


@attrs.define
class Window:
    """One window, and what its trigger remembers."""

    context: Context
    state: Any = None
    is_finished: bool = False
    asked_at: tuple[int | None, int | None] = (None, None)


class Harness:
    """Drives a trigger, asking it only when the protocol says that it is asked.

    A timer is what `next_event_time` or `next_processing_time` gave when the window was last
    looked at; between timers the trigger isn't asked.
    """

    def __init__(self, trigger: Trigger, **ends: int) -> None:
        self.trigger = trigger
        self.clocks = Clocks()
        self.windows = {name: Window(Context(self.clocks, end * SECOND)) for name, end in ends.items()}
        self.firings: list[str] = []

    def run(self, script: Iterable[tuple[Any, ...]]) -> list[list[str]]:
        """For each step, the windows that fired, in order."""
        fired = []
        for step in script:
            self.firings = []
            getattr(self, step[0])(*step[1:])
            fired.append(self.firings)
        return fired

    def element(self, name: str, value: Any = "x") -> None:
        self._touch(name, value)

    def bundle(self, name: str, count: int) -> None:
        for _ in range(count if self.trigger.element_wise else 1):
            self._touch(name, "x" if self.trigger.element_wise else None)

    def watermark(self, seconds: float) -> None:
        self.clocks.watermark = round(seconds * SECOND)
        self._look_when(lambda asked: asked[0] is not None and asked[0] <= self.clocks.watermark)

    def processing_time(self, seconds: float) -> None:
        self.clocks.processing_time = round(seconds * SECOND)
        self._look_when(lambda asked: asked[1] is not None and asked[1] <= self.clocks.processing_time)

    def percentile(self, share: float, seconds: float) -> None:
        self.clocks.percentiles[share] = round(seconds * SECOND)
        if share in self.trigger.percentiles():
            self._look_when(lambda asked: True)

    def signal(self, name: str) -> None:
        self.clocks.signals[name] = self.clocks.signals.get(name, 0) + 1
        if name in self.trigger.signals():
            self._look_when(lambda asked: True)

    def merge(self, names: Iterable[str], result: str, end: int) -> None:
        parts = [self.windows.pop(name) for name in names]
        window = self.windows[result] = Window(Context(self.clocks, end * SECOND))
        window.state = self.trigger.on_merge([part.state for part in parts], window.context)
        self._look(result)

    def _touch(self, name: str, element: Any) -> None:
        window = self.windows[name]
        if not window.is_finished:
            window.state = self.trigger.on_element(window.state, element, window.context)
        self._look(name)

    def _look_when(self, is_due: Any) -> None:
        for name in [name for name, window in self.windows.items() if is_due(window.asked_at)]:
            self._look(name)

    def _look(self, name: str) -> None:
        window = self.windows[name]
        trigger, context = self.trigger, window.context
        if window.is_finished:
            return
        if trigger.should_fire(window.state, context):
            self.firings.append(name)
            window.state, window.is_finished = trigger.on_fire(window.state, context)
        assert window.state == pickle.loads(pickle.dumps(window.state))
        event_time = trigger.next_event_time(window.state, context)
        processing_time = trigger.next_processing_time(window.state, context)
        # A time that has come already must be one that fires, or an operator that waits for it would spin.
        if not window.is_finished and not trigger.should_fire(window.state, context):
            assert event_time is None or event_time > context.watermark
            assert processing_time is None or processing_time > context.processing_time
        window.asked_at = (event_time, processing_time)


def fires(trigger: Trigger, script: list[tuple[Any, ...]], **ends: int) -> list[int]:
    """How often anything fired at each step; a window `w` that ends at 60 unless others are given."""
    return [len(fired) for fired in Harness(trigger, **(ends or {"w": 60})).run(script)]
