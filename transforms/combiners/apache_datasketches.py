"""The optional package of sketches for the approximate combiners."""

from __future__ import annotations

from functools import cache
from typing import Any

from ...sdk.errors import missing_extra


@cache
def datasketches() -> Any:
    """Import and return the package.

    Raises `MissingExtraError` if it isn't installed.
    """
    try:
        import datasketches as package
    except ImportError:
        raise missing_extra("datasketches", "sketches", "an approximate combiner") from None
    return package
