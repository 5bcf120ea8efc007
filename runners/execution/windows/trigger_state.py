"""The trigger's state of each window, and its decisions: whether the window fires, and when to ask the trigger again.

While no clock moves, a trigger's next decision depends only on its state and on the end of the window.  Most windows
that a bundle touches are in the same state and end together.  So a window keeps the last decision about it, and
decisions with the same state share those that follow from them: the trigger is asked once for all equal windows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ....triggers import AfterWatermark, DefaultTrigger, Never, Trigger
from ....windowing.timestamp import MIN_MICROS
from ....windowing.windows import expiry_of
from ..serialization.column_codec import encode_column

# The number of decisions that are kept between two moves of a clock.
_REMEMBERED = 1_000


def fires_early(trigger: Trigger) -> bool:
    """Return True if a trigger may fire before the end of the window."""
    if type(trigger) is AfterWatermark:
        return trigger.early is not None
    return type(trigger) not in (DefaultTrigger, Never)


class Clocks:
    """What triggers see: the operator's clocks and signals, and the end of the window that is decided about."""

    __slots__ = ("end_of_window", "percentiles", "processing_time", "signals", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_MICROS
        self.processing_time = 0
        self.end_of_window = 0
        self.percentiles: dict[float, int] = {}
        self.signals: dict[str, int] = {}

    def percentile_watermark(self, percentile: float) -> int:
        """Return the percentile watermark, which is never behind the watermark."""
        return max(self.watermark, self.percentiles.get(percentile, MIN_MICROS))

    def signalled(self, name: str) -> int:
        """Return how often a signal has come."""
        return self.signals.get(name, 0)

    def size_of(self, element: Any) -> int:
        """Return the size of an element as a shuffle encodes it, in bytes."""
        return len(encode_column([element]))


class Followed:
    """Decisions that follow from one state of a trigger, by the end of the window."""

    __slots__ = ("after_bundle", "now")

    def __init__(self) -> None:
        self.after_bundle: dict[int, Decision] = {}
        self.now: dict[int, Decision] = {}


class Decision:
    """A trigger's decision about a window.

    Attributes:
      fires: whether a pane is due.
      state, is_finished: the trigger's state afterwards, and whether it is finished.
      event_time, processing_time: when to ask the trigger again.
      followed: the decisions that follow from it while no clock moves; None before there are any.
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
      lateness: the grouping's allowed lateness, in microseconds.

    Attributes:
      start: the decision that a new window starts with.
    """

    def __init__(self, trigger: Trigger, clocks: Clocks, lateness: int) -> None:
        self.start = Decision(False, None, False, None, None)
        self._trigger = trigger
        # Few triggers wait for processing time.
        self._may_wait = type(trigger).next_processing_time is not Trigger.next_processing_time
        self._clocks = clocks
        self._lateness = lateness
        # Decisions by the trigger's state, and whether it is finished.
        self._followed: dict[Hashable, Followed] = {}
        # Their dictionaries that aren't empty, and the number of entries in them.
        self._filled: list[dict[int, Decision]] = []
        self._entries = 0

    def forget(self) -> None:
        """Forget shared decisions, since a clock has moved."""
        for decisions in self._filled:
            decisions.clear()
        self._filled.clear()
        self._entries = 0

    def after_bundle(self, last: Decision, end: int) -> Decision:
        """Return the decision after elements, of a trigger that doesn't look at each of them."""
        known = (last.followed or self._following(last)).after_bundle
        found = known.get(end)
        if found is None:
            found = self.after_element(last, None, end)
            self._remember(known, end, found)
        return found

    def now(self, last: Decision, end: int) -> Decision:
        """Return the decision after the clocks may have moved."""
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
            # The state of a user's trigger has no hash.
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
        """Return the decision after an element, of a trigger that looks at it."""
        state = last.state
        if not last.is_finished:
            self._clocks.end_of_window = end
            state = self._trigger.on_element(state, element, self._clocks)
        return self._decided(state, last.is_finished, end)

    def merged(self, decisions: Sequence[Decision], end: int) -> Decision:
        """Return the decision that a merged window starts with."""
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
        # A window is scheduled for its end, too: it may have to hold the output watermark from there on.
        event_time = end if watermark < end else expiry_of(end, self._lateness)
        processing_time = None
        if not is_finished:
            own = trigger.next_event_time(state, clocks)
            if own is not None and watermark < own < event_time:
                event_time = own
            if self._may_wait:
                processing_time = trigger.next_processing_time(state, clocks)
                if processing_time is not None and processing_time <= now:
                    processing_time = None
        return Decision(fires, state, is_finished, event_time, processing_time)
