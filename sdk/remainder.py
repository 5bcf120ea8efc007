"""Remainder: the unfinished work on an element, which was interrupted for other elements."""

from __future__ import annotations

from typing import Any

import attrs

from ..stored import stored_as


@stored_as("remainder", 1)
@attrs.frozen
class Remainder:
    """The last output of a function that interrupts its work on an element.  The function is called with it again.

    Attributes:
      element: the element.
      restrictions: the unfinished restrictions.
      state: the state of the watermark estimator for the first restriction; None without an estimator.
    """

    element: Any
    restrictions: tuple[Any, ...]
    state: Any = None
