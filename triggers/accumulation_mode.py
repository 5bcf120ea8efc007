"""AccumulationMode: how a window's panes relate to each other (Dataflow Model, section 2.3)."""

from __future__ import annotations

from enum import IntEnum

from ..stored import stored_as


@stored_as("accumulation-mode", 1)
class AccumulationMode(IntEnum):
    """How a window's panes relate to each other.

    DISCARDING: a pane holds what arrived since the last one.
    ACCUMULATING: a pane holds everything so far, and replaces the last one.
    RETRACTING: a pane holds everything so far; the one that it replaces is taken back first,
      all the way to the sinks.
    """

    DISCARDING = 1
    ACCUMULATING = 2
    RETRACTING = 3
