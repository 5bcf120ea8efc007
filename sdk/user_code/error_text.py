"""Safe, short texts of users' exceptions.

An exception's `__str__` may raise, and its text may be as large as the data that it describes.  The functions here
never raise, and shorten the texts that are shown, logged and sent between processes.
"""

from __future__ import annotations

import traceback
from types import TracebackType

# Longer texts are cut.
LONGEST = 10_000


def bounded(text: str, longest: int = LONGEST) -> str:
    """Return the beginning of a long text, and its length.

    >>> bounded("x" * 1_000_000, 10), bounded("short")
    ('xxxxxxxxxx... (1,000,000 characters)', 'short')
    """
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def text_of(error: BaseException) -> str:
    """Return the shortened `str` of an exception, or a description if `str` raises.

    >>> class Odd(Exception):
    ...     def __str__(self):
    ...         return self.args[1]
    >>> text_of(ValueError("no")), text_of(Odd(1))
    ('no', '<the __str__ of Odd raised IndexError>')
    """
    try:
        return bounded(str(error))
    except Exception as failure:
        return f"<the __str__ of {type(error).__name__} raised {type(failure).__name__}>"


def text_or_class(error: BaseException) -> str:
    """Return the text of an exception, or the name of its class if it has none.

    >>> text_or_class(ValueError("no")), text_or_class(MemoryError()), text_or_class(TimeoutError())
    ('no', 'MemoryError', 'TimeoutError')
    """
    return text_of(error).strip() or type(error).__name__


def repr_of(error: BaseException) -> str:
    """Return the shortened `repr` of an exception, or a description if `repr` raises."""
    try:
        return bounded(repr(error))
    except Exception as failure:
        return f"<the __repr__ of {type(error).__name__} raised {type(failure).__name__}>"


def traceback_lines(error: BaseException, frames: TracebackType | None) -> list[str]:
    """Return the lines of Python's traceback of an exception and its causes, with each entry shortened."""
    return [bounded(line) for line in traceback.format_exception(type(error), error, frames)]


def can_be_shown(error: BaseException) -> bool:
    """Return whether Python's own traceback of an exception shows its text without secrets."""
    try:
        return len(str(error)) <= LONGEST
    except Exception:
        return False
