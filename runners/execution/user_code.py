"""Errors of user code: which transform, which element, which line."""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import attrs

from ...sdk.errors import PenstockError, UserCodeError
from ...sdk.metrics import at_step
from ...sdk.own_code import is_ours
from ...sdk.redaction import redacted

T = TypeVar("T")

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 120
_repr.maxlevel = 3


def shortened(element: Any) -> str:
    """A `repr` of an element that fits on a line, whatever the element.

    >>> shortened("x" * 1000)[:20]
    "'xxxxxxxxxxxxxxxxxxx"
    """
    try:
        text = _repr.repr(element)
    except Exception as error:
        text = f"<{type(element).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= 200 else text[:197] + "..."


@attrs.frozen
class Attribution:
    """What a failure is to be attributed to."""

    transform: str
    element: str | None


def attributed(error: Exception, attribution: Attribution) -> Exception:
    """The error to raise for what user code raised.

    An instance of `UserCodeError` that is also one of the user's exception class where
    Python lets it be both.  Our own errors that say already what is wrong stay themselves,
    with the transform's label in front.
    """
    if isinstance(error, PenstockError):
        if error.transform:
            return error
        text = str(error)
        # Sources and sinks that were told the label have said it.
        if not text.startswith(f"{attribution.transform}: "):
            text = f"{attribution.transform}: {text}"
        if attribution.element not in (None, "None"):
            text += f" (element: {attribution.element})"
        renamed = type(error)(text)
        renamed.transform = attribution.transform
        renamed.__cause__ = error.__cause__
        return renamed
    tb = user_frames(error.__traceback__)
    location = None
    if tb is not None:
        last = traceback.extract_tb(tb)[-1]
        first = traceback.extract_tb(tb)[0]
        location = f"{first.filename}:{first.lineno}"
        if (last.filename, last.lineno) != (first.filename, first.lineno):
            location += f", raised at {last.filename}:{last.lineno}"
    return user_code_error(
        error.with_traceback(tb), attribution.transform, attribution.element, location, type(error).__name__
    )


def reraise(error: Exception) -> NoReturn:
    """Raise an attributed error, with the cause that it has and nothing of ours around it."""
    raise error from error.__cause__


def guarded(transform: str, action: Callable[[], T]) -> T:
    """The result of user code; what it reports and raises is attributed to the transform of this label."""
    try:
        with at_step(transform):
            return action()
    except Exception as error:
        reraise(attributed(error, Attribution(transform, None)))


def user_code_error(
    error: Exception, transform: str, element: str | None, location: str | None, kind: str
) -> UserCodeError:
    """A `UserCodeError` for what user code raised, of its class as well if that can be."""
    parts = [f"{kind}: {error}", f"[while running '{transform}'"]
    if element is not None:
        parts.append(f"on element {element}")
    if location is not None:
        parts.append(f"at {location}")
    made = with_user_class(type(error), redacted(" ".join(parts) + "]"))
    made.transform, made.element, made.location = transform, element, location
    made.__cause__ = error
    return made


def with_user_class(kind: type[Exception], message: str) -> UserCodeError:
    """A `UserCodeError` with this message that is also a `kind`, if a class can be both."""
    # These would end any generator that they pass; Python itself makes them this one.
    if issubclass(kind, (StopIteration, StopAsyncIteration)):
        kind = RuntimeError
    if kind is not Exception:
        try:
            both = type(kind.__name__, (UserCodeError, kind), {"__init__": Exception.__init__, "__str__": _message})
            both.__module__, both.__qualname__ = kind.__module__, kind.__qualname__
            return both(message)  # type: ignore[no-any-return]
        except TypeError:
            pass
    return UserCodeError(message)


def _message(self: Exception) -> str:
    return str(self.args[0])


def user_frames(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins at the first frame outside of this package.

    None when there is none: a built-in function raised.
    """
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not is_ours(file):
            return tb
        tb = tb.tb_next
    return None
