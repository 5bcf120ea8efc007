"""The package of sketches that the approximate combiners are built on; optional."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...sdk.errors import missing_extra


@cache
def datasketches() -> Any:
    """The package, imported when a combiner first needs it.

    Raises MissingExtraError, which says how to install it, if it isn't there.
    """
    try:
        import datasketches as package
    except ImportError:
        raise missing_extra("datasketches", "sketches", "an approximate combiner") from None
    return package
