"""DataLossReason: why a trigger might leave data unemitted."""

from __future__ import annotations

from enum import IntFlag


class DataLossReason(IntFlag):
    """Why a trigger might leave data unemitted.

    MAY_FINISH: it may finish while data can still arrive.
    CONDITION_NOT_GUARANTEED: what it waits for may never happen.
    """

    NO_POTENTIAL_LOSS = 0
    MAY_FINISH = 1
    CONDITION_NOT_GUARANTEED = 2
