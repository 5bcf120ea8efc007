"""Checks of (key, value) pairs and of keys, and the errors for those that can't be grouped."""

from __future__ import annotations

from typing import Any

from ....sdk.errors import InvalidKeyError, NotAPairError
from ..user_errors import shortened


def pair_type(element: Any) -> type:
    """Return the type of an element that may be a (key, value) pair.

    Raises `NotAPairError` for other elements.
    """
    if isinstance(element, (tuple, list)):
        return type(element)
    raise not_a_pair(element)


def not_a_pair(element: Any) -> NotAPairError:
    """Return the error for an element that is not a (key, value) pair."""
    got = f"{shortened(element)} ({type(element).__name__})"
    if isinstance(element, (tuple, list)):
        got += f" of {len(element)} items"
    return NotAPairError(f"expected a (key, value) pair, got {got}; did you forget WithKeys, or a Map to a pair?")


def unhashable(key: Any) -> InvalidKeyError:
    """Return the error for a key without a hash."""
    return InvalidKeyError(
        f"the key {shortened(key)} is a {type(key).__name__}, which is unhashable and so can't be grouped by; "
        "use a tuple or a frozenset instead"
    )
