"""What a trigger decides: whether a window fires now, and when to ask again.

While no clock moves, what a trigger decides next depends on its state and on the end of the
window alone; and most windows that a bundle touches are in the same state and end together.
So a window keeps the last decision about it, and decisions that leave a trigger in the same
state share what has followed from them: the trigger is asked once for all windows that are alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ....triggers import Trigger
from ....windowing.timestamp import MIN_MICROS
from ....windowing.window_lifetime import expiry_of
from ..column_codec import encode_column

# How many decisions are remembered between two moves of a clock.
_REMEMBERED = 10_000


class Clocks:
    """What a trigger sees of a window: the operator's clocks and signals, and the window's end."""

    __slots__ = ("end_of_window", "percentiles", "processing_time", "signals", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_MICROS
        self.processing_time = 0
        self.end_of_window = 0
        self.percentiles: dict[float, int] = {}
        self.signals: dict[str, int] = {}

    def percentile_watermark(self, percentile: float) -> int:
        """What that share of the elements is past: at least as far as the watermark, which all are past."""
        return max(self.watermark, self.percentiles.get(percentile, MIN_MICROS))

    def signalled(self, name: str) -> int:
        """How often a signal has come."""
        return self.signals.get(name, 0)

    def size_of(self, element: Any) -> int:
        """The bytes of an element, encoded as it would travel."""
        return len(encode_column([element]))


class Followed:
    """What has followed, by the end of the window, from decisions that left a trigger in one state."""

    __slots__ = ("after_bundle", "now")

    def __init__(self) -> None:
        self.after_bundle: dict[int, Decision] = {}
        self.now: dict[int, Decision] = {}


class Decision:
    """What is to happen to a window.

    Attributes:
      fires: whether a pane is due.
      state, is_finished: what the trigger remembers afterwards, and whether it is finished.
      event_time, processing_time: when to look at the window again.
      followed: the decisions that followed from it while no clock moved; None before any has.
    """

    __slots__ = ("event_time", "fires", "followed", "is_finished", "processing_time", "state")

    def __init__(
        self, fires: bool, state: Any, is_finished: bool, event_time: int | None, processing_time: int | None
    ) -> None:
        self.fires = fires
        self.state = state
        self.is_finished = is_finished
        self.event_time = event_time
        self.processing_time = processing_time
        self.followed: Followed | None = None


class TriggerDecisions:
    """A trigger's decisions.

    Args:
      lateness: the grouping's allowed lateness, in microseconds: a window expires when
        the watermark is past its end by more than that.

    Attributes:
      start: stands for the decision about a window that nothing has come to.
    """

    def __init__(self, trigger: Trigger, clocks: Clocks, lateness: int) -> None:
        self.start = Decision(False, None, False, None, None)
        self._trigger = trigger
        self._clocks = clocks
        self._lateness = lateness
        # By the trigger's state, and whether it is finished.
        self._followed: dict[Hashable, Followed] = {}
        # Those of their dictionaries that hold anything, and how many entries that is.
        self._filled: list[dict[int, Decision]] = []
        self._entries = 0

    def forget(self) -> None:
        """A clock has moved."""
        for decisions in self._filled:
            decisions.clear()
        self._filled.clear()
        self._entries = 0

    def after_bundle(self, last: Decision, end: int) -> Decision:
        """The decision after elements, of a trigger that doesn't look at each."""
        known = (last.followed or self._following(last)).after_bundle
        found = known.get(end)
        if found is None:
            found = self.after_element(last, None, end)
            self._remember(known, end, found)
        return found

    def now(self, last: Decision, end: int) -> Decision:
        """The decision when nothing but the clocks may have moved."""
        known = (last.followed or self._following(last)).now
        found = known.get(end)
        if found is None:
            found = self._decided(last.state, last.is_finished, end)
            self._remember(known, end, found)
        return found

    def _following(self, last: Decision) -> Followed:
        try:
            followed = self._followed.setdefault((last.state, last.is_finished), Followed())
        except TypeError:
            # The state of a user's trigger, without a hash.
            followed = Followed()
        if len(self._followed) > _REMEMBERED:
            self._followed.clear()
        last.followed = followed
        return followed

    def _remember(self, known: dict[int, Decision], end: int, decision: Decision) -> None:
        if self._entries >= _REMEMBERED:
            self.forget()
        if not known:
            self._filled.append(known)
        known[end] = decision
        self._entries += 1

    def after_element(self, last: Decision, element: Any, end: int) -> Decision:
        """The decision after an element, of a trigger that looks at it."""
        state = last.state
        if not last.is_finished:
            self._clocks.end_of_window = end
            state = self._trigger.on_element(state, element, self._clocks)
        return self._decided(state, last.is_finished, end)

    def merged(self, decisions: Sequence[Decision], end: int) -> Decision:
        """What stands for the decision about a window that several have merged into."""
        clocks = self._clocks
        clocks.end_of_window = end
        state = self._trigger.on_merge([decision.state for decision in decisions], clocks)
        is_finished = clocks.watermark >= end and all(decision.is_finished for decision in decisions)
        return Decision(False, state, is_finished, None, None)

    def _decided(self, state: Any, is_finished: bool, end: int) -> Decision:
        trigger, clocks = self._trigger, self._clocks
        clocks.end_of_window = end
        fires = not is_finished and trigger.should_fire(state, clocks)
        if fires:
            state, is_finished = trigger.on_fire(state, clocks)
        watermark, now = clocks.watermark, clocks.processing_time
        # At its end a window may have to hold the watermark downstream.
        event_time = end if watermark < end else expiry_of(end, self._lateness)
        processing_time = None
        if not is_finished:
            own = trigger.next_event_time(state, clocks)
            if own is not None and watermark < own < event_time:
                event_time = own
            processing_time = trigger.next_processing_time(state, clocks)
            if processing_time is not None and processing_time <= now:
                processing_time = None
        return Decision(fires, state, is_finished, event_time, processing_time)
