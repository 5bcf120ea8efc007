"""Unsafe triggers: those that might leave data behind until the window closes, or for good."""

from __future__ import annotations

from typing import Any

from .data_loss import DataLossReason


class UnsafeTriggerError(ValueError):
    """A grouping's trigger might leave data behind, and nobody said that it may."""


def check_safe(windowing: Any, allow_unsafe: bool, label: str) -> None:
    """Raise `UnsafeTriggerError`, naming the grouping, if its trigger might leave data behind.

    `windowing` has a `trigger` and an `allowed_lateness`, in microseconds.
    """
    if allow_unsafe:
        return
    reason = windowing.trigger.may_lose_data(windowing)
    if reason != DataLossReason.NO_POTENTIAL_LOSS:
        names = " and ".join(r.name or "" for r in DataLossReason if r and r in reason)
        raise UnsafeTriggerError(
            f"{label}: unsafe trigger {windowing.trigger!r} might leave data behind ({names}); "
            "wrap it in Repeatedly, or run with --allow_unsafe_triggers"
        )
