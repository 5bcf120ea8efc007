"""Composite: the base class of triggers that are made of triggers.

Each part is evaluated independently.  Its state is one entry of the composite's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ..lifetime import FINISHED, Lifetime, begun, fired, is_finished, merged, unfinished
from ..trigger import Trigger, TriggerContext


class Composite(Lifetime):
    """Base class of AfterAny and AfterAll, whose parts are active together, and AfterEach, whose parts take turns.

    Attributes:
      triggers: the parts.
    """

    def __init__(self, *triggers: Trigger) -> None:
        name = type(self).__name__
        if not triggers:
            raise ValueError(f"{name} needs at least one trigger")
        for trigger in triggers:
            check_trigger(name, trigger)
        self.triggers = triggers
        self.element_wise = any(part.element_wise for part in triggers)

    @abstractmethod
    def is_over(self, parts: Sequence[Any]) -> bool:
        """Return whether the composite has finished with these states of its parts."""

    def parts(self, state: Any) -> tuple[Any, ...]:
        """Return the state of each part."""
        return (state,) * len(self.triggers) if state is None or state is FINISHED else state

    def pairs(self, state: Any) -> list[tuple[Trigger, Any]]:
        """Return the parts that have not finished, with their states."""
        return [(part, own) for part, own in zip(self.triggers, self.parts(state)) if not is_finished(part, own)]

    def ready(self, state: Any, context: TriggerContext) -> list[bool]:
        """Return, for each part that has not finished, whether it would fire."""
        return [part.should_fire(own, context) for part, own in self.pairs(state)]

    def is_finished(self, state: Any) -> bool:
        return state is FINISHED or self.is_over(self.parts(state))

    def begun(self, context: TriggerContext) -> Any:
        return tuple(begun(part, context) for part in self.triggers)

    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        if self.is_finished(state):
            return state
        return tuple(
            own if is_finished(part, own) else part.on_element(own, element, context)
            for part, own in zip(self.triggers, self.parts(state))
        )

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        started = unfinished(states)
        if not started:
            return FINISHED if FINISHED in states else None
        columns = zip(*(self.parts(state) for state in started))
        return tuple(merged(part, column, context) for part, column in zip(self.triggers, columns))

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        after = tuple(
            fired(part, own, context) if not is_finished(part, own) and part.should_fire(own, context) else own
            for part, own in zip(self.triggers, self.parts(state))
        )
        if not self.is_over(after):
            return after, False
        # The elements that the others have counted are emitted, and would be counted again if a merge revived this
        # trigger.
        return tuple(own if is_finished(part, own) else None for part, own in zip(self.triggers, after)), True

    def next_event_time(self, state: Any, context: TriggerContext) -> int | None:
        if self.is_finished(state):
            return None
        return earliest([part.next_event_time(own, context) for part, own in self.pairs(state)])

    def next_processing_time(self, state: Any, context: TriggerContext) -> int | None:
        if self.is_finished(state):
            return None
        return earliest([part.next_processing_time(own, context) for part, own in self.pairs(state)])

    def signals(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.signals() for part in self.triggers))

    def percentiles(self) -> frozenset[float]:
        return frozenset[float]().union(*(part.percentiles() for part in self.triggers))

    def has_ontime_pane(self) -> bool:
        return any(part.has_ontime_pane() for part in self.triggers)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.triggers))})"


def earliest(times: Sequence[int | None]) -> int | None:
    """Return the earliest of the given times, or None if there are none."""
    return min((time for time in times if time is not None), default=None)


def check_trigger(name: str, trigger: object, expected: str = "a trigger") -> None:
    """Raise `TypeError` unless a value is a trigger."""
    if not isinstance(trigger, Trigger):
        hint = "; did you forget to call it?" if isinstance(trigger, type) else ""
        raise TypeError(f"{name}: expected {expected}, got {trigger!r}{hint}")
