"""Errors that a snippet expects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refused(*expected: type[BaseException]) -> Iterator[None]:
    """Print that one of the expected classes is raised in the block, or the class that is raised instead.

    Neither messages nor names of classes are compared: each side has its own.
    """
    try:
        yield
    except BaseException as error:
        print("refused" if isinstance(error, expected) else f"refused by another class: {type(error).__name__}")
    else:
        print("not refused")
