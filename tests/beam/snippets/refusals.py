"""Errors that a snippet expects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refused(*expected: type[BaseException]) -> Iterator[None]:
    """Print which of the expected classes is raised in the block, or the class that is raised instead.

    Messages aren't compared: each side has its own.
    """
    try:
        yield
    except BaseException as error:
        found = [kind.__name__ for kind in expected if isinstance(error, kind)]
        print("refused:", found[0] if found else type(error).__name__)
    else:
        print("not refused")
