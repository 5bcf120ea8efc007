"""Check of triggers that may finish early, which need an option.

Elements that arrive after a trigger has finished are not lost, but they are emitted only when the window expires: in
the global window, at the end of the stream.
"""

from __future__ import annotations

import logging
from typing import Any

from .data_loss import DataLossReason, UnsafeTriggerError

_LOGGER = logging.getLogger(__name__)


def check_safe(windowing: Any, allow_unsafe: bool, label: str) -> None:
    """Raise `UnsafeTriggerError` for a trigger that may finish early, or log a warning if it is allowed.

    Args:
      windowing: the grouping's `WindowingStrategy`.
      allow_unsafe: the option `allow_unsafe_triggers`.
      label: the grouping's full label.

    >>> from penstock.sdk.windowing_strategy import WindowingStrategy
    >>> from penstock.triggers import AfterCount
    >>> check_safe(WindowingStrategy(trigger=AfterCount(2)), False, "Sum")
    Traceback (most recent call last):
    penstock.triggers.data_loss.UnsafeTriggerError: Sum: Unsafe trigger: `AfterCount(2)` may lose data. \
Reason: MAY_FINISH. Wrap it in Repeatedly(...), or allow it with the --allow_unsafe_triggers flag.
    """
    reason = windowing.trigger.may_lose_data(windowing)
    if reason == DataLossReason.NO_POTENTIAL_LOSS:
        return
    found = f"{label}: Unsafe trigger: `{windowing.trigger!r}` may lose data. Reason: {_names(reason)}."
    if not allow_unsafe:
        raise UnsafeTriggerError(
            f"{found} Wrap it in Repeatedly(...), or allow it with the --allow_unsafe_triggers flag."
        )
    _LOGGER.warning("%s This is allowed by --allow_unsafe_triggers.", found)


def _names(reason: DataLossReason) -> str:
    return "|".join(flag.name or "" for flag in DataLossReason if flag and flag in reason)
