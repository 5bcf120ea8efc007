"""A `Remainder`: what remains of the work on an element, which was left because others wait."""

from __future__ import annotations

from typing import Any

import attrs

from ..stored import stored_as


@stored_as("remainder", 1)
@attrs.frozen
class Remainder:
    """The last output of a function that has left its work on an element: it is called with this again.

    Attributes:
      element: the element.
      restrictions: what of its work isn't done.
      state: that of the watermark estimator, for the first of them; None if there is none.
    """

    element: Any
    restrictions: tuple[Any, ...]
    state: Any = None
