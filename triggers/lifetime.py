"""Lifetime: the start, the finish and the revival of a trigger.

A merge may revive a finished trigger: when its window merges into one that ends later, the end of that window is in the
future.  So a trigger's state includes whether it has finished, and `on_merge` gets the states of finished triggers as
well.

Two rules hold for all triggers here:

- None, the initial state of a window, adds nothing to a merge;
- if some triggers have finished and others have not, the merged trigger has not finished, so no condition is lost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Any, Final

from ..persistence import stored_as
from .trigger import Trigger, TriggerContext


@stored_as("trigger-finished", 1)
class Finished(Enum):
    """The state of a finished trigger."""

    FINISHED = "finished"


FINISHED: Final = Finished.FINISHED


class Lifetime(Trigger):
    """A trigger whose state tells whether it has finished."""

    def begun(self, context: TriggerContext) -> Any:
        """Return the initial state in the middle of a window, after another trigger or after a repetition."""
        return None

    def is_finished(self, state: Any) -> bool:
        """Return whether the trigger has finished, unless a merge revives it."""
        return state is FINISHED


class Once(Lifetime):
    """A trigger that fires once and has finished.  `Repeatedly` restarts it.

    The methods of subclasses don't get the states None and `FINISHED`, except for None with a first element.
    """

    @abstractmethod
    def seen(self, state: Any, element: Any, context: TriggerContext) -> Any:
        """Return the state after one more element; `state` is None before the first."""

    @abstractmethod
    def joined(self, states: Sequence[Any], context: TriggerContext) -> Any:
        """Return the state of a merged window."""

    @abstractmethod
    def ready(self, state: Any, context: TriggerContext) -> bool:
        """Return whether its condition is true."""

    def on_element(self, state: Any, element: Any, context: TriggerContext) -> Any:
        return FINISHED if state is FINISHED else self.seen(state, element, context)

    def on_merge(self, states: Sequence[Any], context: TriggerContext) -> Any:
        waiting = unfinished(states)
        if waiting:
            return self.joined(waiting, context)
        return FINISHED if FINISHED in states else None

    def should_fire(self, state: Any, context: TriggerContext) -> bool:
        return state is not None and state is not FINISHED and self.ready(state, context)

    def on_fire(self, state: Any, context: TriggerContext) -> tuple[Any, bool]:
        return FINISHED, True


def unfinished(states: Sequence[Any]) -> list[Any]:
    """Return the states of triggers that have not finished."""
    return [state for state in states if state is not None and state is not FINISHED]


# Operations of a composite on its parts.  A user's trigger as a part may report that it has finished without recording
# it in its state.


def is_finished(part: Trigger, state: Any) -> bool:
    """Return whether a part of a composite has finished."""
    if state is None or state is FINISHED:
        return state is FINISHED
    return _has_lifetime(type(part)) and part.is_finished(state)  # type: ignore[attr-defined]


@cache
def _has_lifetime(kind: type[Trigger]) -> bool:
    """Return whether triggers of a type are `Lifetime`s; for an abstract class `isinstance` costs ten times as much."""
    return issubclass(kind, Lifetime)


def begun(part: Trigger, context: TriggerContext) -> Any:
    """Return the initial state of a part in the middle of a window."""
    return part.begun(context) if isinstance(part, Lifetime) else None


def fired(part: Trigger, state: Any, context: TriggerContext) -> Any:
    """Return the state of a part after it has fired."""
    after, finished = part.on_fire(state, context)
    return FINISHED if finished and not is_finished(part, after) else after


def merged(part: Trigger, states: Sequence[Any], context: TriggerContext) -> Any:
    """Return the state of a part in a merged window."""
    if isinstance(part, Lifetime):
        return part.on_merge(states, context)
    waiting = unfinished(states)
    if waiting:
        return part.on_merge(waiting, context)
    return FINISHED if FINISHED in states else None
