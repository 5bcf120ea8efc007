"""Lifetime: how a trigger begins, finishes, and begins again when windows merge.

A trigger that has finished may come back to life: when its window merges into one that ends
later, the end of that window is still to come.  So finishing is part of what a trigger
remembers, and `on_merge` is given the states of the finished too.

Two rules hold for all triggers here:

- None, the state of a window that nothing has happened to yet, adds nothing to a merge;
- of what has finished and what has not, the latter goes on: nothing that waits is forgotten.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from ..stored import stored_as
from .trigger import Trigger, TriggerContext


@stored_as("trigger-finished", 1)
class Finished(Enum):
    """The state of a trigger that has finished and keeps nothing else."""

    FINISHED = "finished"


FINISHED: Final = Finished.FINISHED


class Lifetime(Trigger):
    """A trigger whose state says whether it has finished."""

    def begun(self, context: TriggerContext) -> Any:
        """The state in which it starts in the midst of a window, as after another trigger or itself."""
        return None

    def is_finished(self, state: Any) -> bool:
        """Return whether it has finished for good, unless a merge revives it."""
        return state is FINISHED


class Once(Lifetime):
    """A trigger that fires once and has finished; to fire again it needs `Repeatedly`.

    What is left to a subclass knows nothing of None and `FINISHED`, except that an element
    may be the first.
    """

    @abstractmethod
    def seen(self, state: Any, element: Any, context: TriggerContext) -> Any:
        """The state after one more element; None before the first."""

    @abstractmethod
    def joined(self, states: Sequence[Any], context: TriggerContext) -> Any:
        """The state of the window that several have merged into."""

    @abstractmethod
    def ready(self, state: Any, context: TriggerContext) -> bool:
        """Return whether what it waits for has come."""

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
    """Those of the states in which something is waited for."""
    return [state for state in states if state is not None and state is not FINISHED]


# What a composite does with each of its parts.  A user's own trigger may be one of them,
# which says that it has finished but doesn't remember it.


def is_finished(part: Trigger, state: Any) -> bool:
    """Return whether a part of a composite has finished."""
    return state is FINISHED or (isinstance(part, Lifetime) and part.is_finished(state))


def begun(part: Trigger, context: TriggerContext) -> Any:
    """The state in which a part starts in the midst of a window."""
    return part.begun(context) if isinstance(part, Lifetime) else None


def fired(part: Trigger, state: Any, context: TriggerContext) -> Any:
    """The state of a part after it has fired."""
    after, finished = part.on_fire(state, context)
    return FINISHED if finished and not is_finished(part, after) else after


def merged(part: Trigger, states: Sequence[Any], context: TriggerContext) -> Any:
    """The state of a part in the window that several have merged into."""
    if isinstance(part, Lifetime):
        return part.on_merge(states, context)
    waiting = unfinished(states)
    if waiting:
        return part.on_merge(waiting, context)
    return FINISHED if FINISHED in states else None
