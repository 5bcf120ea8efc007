"""DataLossReason: the reason why a trigger may not emit data."""

from __future__ import annotations

from enum import Flag


class DataLossReason(Flag):
    """The reason why a trigger may not emit data before its window expires.

    MAY_FINISH: it may finish before all data has arrived.
    CONDITION_NOT_GUARANTEED: its condition may never be true.  Beam's, and unused here, since all data is emitted when
      the window expires.
    """

    NO_POTENTIAL_LOSS = 0
    MAY_FINISH = 1
    CONDITION_NOT_GUARANTEED = 2


class UnsafeTriggerError(ValueError):
    """A grouping's trigger may finish before all data has arrived."""
