"""Beam's decorators that mark functions and classes of a program as deprecated or experimental."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


class BeamDeprecationWarning(DeprecationWarning):
    """Category of the warnings of `deprecated`, which are shown once."""


warnings.simplefilter("once", BeamDeprecationWarning)


def annotate(
    label: str,
    since: str | None,
    current: str | None,
    extra_message: str | None,
    custom_message: str | None = None,
) -> Callable[[T], T]:
    """Return a decorator: a call of the function, or of the class, warns.

    Args:
      label: 'deprecated', or 'experimental' for a `FutureWarning`.
      since: the version from which on it is so.
      current: what to use instead.
      extra_message: added to the message.
      custom_message: the whole message, with %name%, %since%, %current% and %extra%.

    Raises `TypeError` for a custom message of a deprecation without %since%.
    """
    if custom_message is None:
        when = f" since {since}" if label == "deprecated" else ""
        instead = f" Use {current} instead." if current else ""
        message = f"%name% is {label}{when}.{instead} {extra_message or ''}".rstrip()
    elif label == "deprecated" and "%since%" not in custom_message:
        raise TypeError(f"custom_message of a deprecation must have %since% in it, got {custom_message!r}")
    else:
        parts = {"%since%": since, "%current%": current, "%extra%": extra_message}
        message = custom_message
        for placeholder, text in parts.items():
            message = message.replace(placeholder, text or "")
    category = BeamDeprecationWarning if label == "deprecated" else FutureWarning

    def decorate(target: T) -> T:
        text = message.replace("%name%", target.__name__)
        marked: Any = target if isinstance(target, type) else _warning_function(target, text, category)
        if isinstance(target, type):
            _warn_when_made(marked, text, category)
        if label == "deprecated":
            marked.__doc__ = (
                f"{target.__doc__}\n\n.. deprecated:: {text}" if target.__doc__ else f".. deprecated:: {text}"
            )
        return marked  # type: ignore[no-any-return]

    return decorate


def deprecated(
    since: str, current: str | None = None, extra_message: str | None = None, custom_message: str | None = None
) -> Callable[[T], T]:
    """Return a decorator that marks a function or class as deprecated.

    >>> @deprecated(since="2.0", current="total")
    ... def add_up(values):
    ...     return sum(values)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     _ = add_up([1])
    >>> print(caught[0].message)
    add_up is deprecated since 2.0. Use total instead.
    """
    return annotate("deprecated", since, current, extra_message, custom_message)


def experimental(
    current: str | None = None, extra_message: str | None = None, custom_message: str | None = None
) -> Callable[[T], T]:
    """Return a decorator that marks a function or class as experimental.  Beam has it up to version 2.59."""
    return annotate("experimental", None, current, extra_message, custom_message)


def _warning_function(function: Any, text: str, category: type[Warning]) -> Any:
    @functools.wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, category, stacklevel=2)
        return function(*args, **kwargs)

    return warning


def _warn_when_made(kind: Any, text: str, category: type[Warning]) -> None:
    made = kind.__new__

    def warned_new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, category, stacklevel=2)
        return made(cls) if made is object.__new__ else made(cls, *args, **kwargs)

    kind.__new__ = warned_new
