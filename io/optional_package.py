"""Packages that only some formats need, imported when one of them is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..sdk.errors import missing_extra


def optional_package(module: str, extra: str, needed_for: str) -> Any:
    """Import and return a module.  Raises `MissingExtraError`, naming the extra, if it isn't installed.

    >>> optional_package("json", extra="parquet", needed_for="this example").loads("[1]")
    [1]
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing_extra(module.partition(".")[0], extra, needed_for) from error
