"""DataLossReason: why a trigger might leave data unemitted."""

from __future__ import annotations

from enum import IntFlag


class DataLossReason(IntFlag):
    """Why a trigger might leave data unemitted until its window expires.

    MAY_FINISH: it may finish while data can still arrive.
    CONDITION_NOT_GUARANTEED: what it waits for may never happen.  Beam's; no trigger here
      gives it, since what was waited for in vain comes out when the window expires.
    """

    NO_POTENTIAL_LOSS = 0
    MAY_FINISH = 1
    CONDITION_NOT_GUARANTEED = 2


class UnsafeTriggerError(ValueError):
    """A grouping's trigger may finish while data can still arrive."""
