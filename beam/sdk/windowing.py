"""Beam's class `Windowing`, as a function."""

from __future__ import annotations

from typing import Any

from ...sdk.windowing_strategy import WindowingStrategy, lateness_of
from ...triggers import AccumulationMode, DefaultTrigger, Trigger
from ...windowing.timestamp_combiner import TimestampCombiner
from ...windowing.window_fn import WindowFn


def Windowing(
    windowfn: WindowFn,
    triggerfn: Trigger | None = None,
    accumulation_mode: AccumulationMode | None = None,
    timestamp_combiner: Any = None,
    allowed_lateness: Any = 0,
    environment_id: str | None = None,
) -> WindowingStrategy:
    """Return a strategy.

    Raises `ValueError` for a trigger without a mode.

    >>> from penstock.windowing import GlobalWindows
    >>> Windowing(GlobalWindows()).is_default()
    True
    """
    if accumulation_mode is None:
        if triggerfn not in (None, DefaultTrigger()):
            raise ValueError(f"Windowing: the trigger {triggerfn!r} needs an accumulation_mode")
        accumulation_mode = AccumulationMode.DISCARDING
    return WindowingStrategy(
        windowfn,
        triggerfn or DefaultTrigger(),
        accumulation_mode,
        timestamp_combiner or TimestampCombiner.OUTPUT_AT_EOW,
        lateness_of(allowed_lateness),
    )
