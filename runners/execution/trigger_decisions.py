"""What a trigger decides: whether a window fires now, and when to ask again.

While no clock moves, a trigger's decision depends on its state and on the end of the window
alone; and most windows that a bundle touches are in the same state and end together.  So it
is asked once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...triggers import Trigger
from ...windowing.timestamp import MIN_MICROS
from .column_codec import encode_column

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


class Decision:
    """What is to happen to a window.

    Attributes:
      fires: whether a pane is due.
      state, is_finished: what the trigger remembers afterwards, and whether it is finished.
      event_time, processing_time: when to ask again; later than now.
    """

    __slots__ = ("event_time", "fires", "is_finished", "processing_time", "state")

    def __init__(
        self, fires: bool, state: Any, is_finished: bool, event_time: int | None, processing_time: int | None
    ) -> None:
        self.fires = fires
        self.state = state
        self.is_finished = is_finished
        self.event_time = event_time
        self.processing_time = processing_time


# Of a trigger that has finished.
NO_MORE = Decision(False, None, True, None, None)


class TriggerDecisions:
    """A trigger's decisions, remembered until a clock moves."""

    def __init__(self, trigger: Trigger, clocks: Clocks) -> None:
        self._trigger = trigger
        self._clocks = clocks
        self._after_bundle: dict[Hashable, Decision] = {}
        self._now: dict[Hashable, Decision] = {}

    def forget(self) -> None:
        """A clock has moved."""
        self._after_bundle.clear()
        self._now.clear()

    def after_bundle(self, state: Any, end: int) -> Decision:
        """The decision after elements, of a trigger that doesn't look at each."""
        return self._remembered(self._after_bundle, state, end, self._decided_after_bundle)

    def now(self, state: Any, end: int) -> Decision:
        """The decision when nothing but the clocks may have moved."""
        return self._remembered(self._now, state, end, self._decided)

    def after_element(self, state: Any, element: Any, end: int) -> Decision:
        """The decision after an element, of a trigger that looks at it."""
        self._clocks.end_of_window = end
        return self.now(self._trigger.on_element(state, element, self._clocks), end)

    def merged(self, states: Sequence[Any], end: int) -> Any:
        """The state for the window that several have merged into."""
        self._clocks.end_of_window = end
        return self._trigger.on_merge(states, self._clocks)

    def _remembered(
        self, decisions: dict[Hashable, Decision], state: Any, end: int, decide: Callable[[Any, int], Decision]
    ) -> Decision:
        key = state, end
        try:
            found = decisions.get(key)
        except TypeError:
            # The state of a user's trigger, without a hash.
            return decide(state, end)
        if found is None:
            if len(decisions) >= _REMEMBERED:
                decisions.clear()
            found = decisions[key] = decide(state, end)
        return found

    def _decided_after_bundle(self, state: Any, end: int) -> Decision:
        self._clocks.end_of_window = end
        return self._decided(self._trigger.on_element(state, None, self._clocks), end)

    def _decided(self, state: Any, end: int) -> Decision:
        trigger, clocks = self._trigger, self._clocks
        clocks.end_of_window = end
        fires, is_finished = trigger.should_fire(state, clocks), False
        if fires:
            state, is_finished = trigger.on_fire(state, clocks)
        if is_finished:
            return Decision(fires, state, True, None, None)
        event_time = trigger.next_event_time(state, clocks)
        if event_time is not None and event_time <= clocks.watermark:
            event_time = None
        processing_time = trigger.next_processing_time(state, clocks)
        if processing_time is not None and processing_time <= clocks.processing_time:
            processing_time = None
        return Decision(fires, state, False, event_time, processing_time)
