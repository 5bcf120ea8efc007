"""AccumulationMode: the relation between a window's panes (Dataflow Model, section 2.3)."""

from __future__ import annotations

from enum import IntEnum

from ..stored import stored_as


@stored_as("accumulation-mode", 1)
class AccumulationMode(IntEnum):
    """The relation between a window's panes.

    DISCARDING: a pane has the elements since the last pane.
    ACCUMULATING: a pane has all elements so far, and replaces the last pane.
    RETRACTING: a pane has all elements so far.  The pane that it replaces is retracted first, in all later steps and
      sinks.
    """

    DISCARDING = 1
    ACCUMULATING = 2
    RETRACTING = 3
