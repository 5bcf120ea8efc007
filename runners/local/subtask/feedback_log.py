"""The log of a loop's back-edges, of which a snapshot needs what was in the loop (ABS, algorithm 2).

When the barrier has come on all regular inputs, a copy of the state is made and logging begins.
What comes back from then on, until the barrier itself has come back on every back-edge, is
processed as ever, and is part of the snapshot: copy and log.

>>> log = LoopLog(["back"])
>>> log.begin(7)
>>> log.came_back("back", "a"), log.returned("back", 7), log.taken()
(None, True, {'back': ['a']})
>>> log.is_logging("back")
False
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any


class LoopLog:
    """Logs one barrier's round at a time; barriers come back in the order in which they went.

    Args:
      back_edges: the inputs from which the loop comes back.
    """

    def __init__(self, back_edges: Collection[Hashable]) -> None:
        self._back_edges = tuple(back_edges)
        self._number = -1
        self._out: set[Hashable] = set()
        self._entries: dict[Hashable, list[Any]] = {}

    def begin(self, number: int) -> None:
        """The barrier goes into the loop."""
        self._number = number
        self._out = set(self._back_edges)
        self._entries = {edge: [] for edge in self._back_edges}

    def is_logging(self, edge: Hashable) -> bool:
        """Whether the barrier is yet to come back on a back-edge."""
        return edge in self._out

    def came_back(self, edge: Hashable, message: Any) -> None:
        """A message has come back."""
        if edge in self._out:
            self._entries[edge].append(message)

    def returned(self, edge: Hashable, number: int) -> bool:
        """A barrier has come back; whether it has now on all back-edges."""
        if number != self._number:
            return False
        self._out.discard(edge)
        return not self._out

    def taken(self) -> dict[Hashable, list[Any]]:
        """The log; it is given once."""
        entries, self._entries = self._entries, {}
        return entries
