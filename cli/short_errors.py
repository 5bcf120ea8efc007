"""Short error messages: the user's lines and the transform, without penstock's frames."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..runners.execution.error_transport import RemoteTraceback
from ..runners.execution.user_errors import ShortenedError
from ..sdk.errors import PenstockError, UserCodeError
from ..sdk.redaction import redacted
from ..sdk.user_code.error_text import text_of
from ..sdk.user_code.own_code import is_ours

_OURS = f"{__name__.partition('.')[0]}."


def short_message(error: BaseException) -> str:
    """Return the message for an error that a user's program ended with.

    >>> from penstock.sdk.errors import OptionsError
    >>> print(short_message(OptionsError("unknown option --runer; did you mean --runner?")))
    OptionsError: unknown option --runer; did you mean --runner?
    """
    if isinstance(error, UserCodeError):
        return _of_user_code(error)
    if isinstance(error, PenstockError) or type(error).__module__.startswith(_OURS):
        return f"{_frames(error)}{type(error).__name__}: {error}"
    return _of_program(error)


def _of_user_code(error: UserCodeError) -> str:
    """Return the message for an exception of a user's function."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    if isinstance(cause, (RemoteTraceback, ShortenedError)):
        lines = [str(cause).strip()]
    else:
        lines = [f"{_frames(cause)}{redacted(f'{type(cause).__name__}: {text_of(cause)}')}"]
    lines.append(f"  in the transform {error.transform!r}")
    if error.element is not None:
        lines.append(f"  on the element {error.element}")
    return "\n".join(lines)


def _of_program(error: BaseException) -> str:
    """Return Python's traceback without penstock's frames."""
    shown = traceback.TracebackException.from_exception(error)
    pending = [shown]
    while pending:
        part = pending.pop()
        part.stack = _of_user(part.stack)
        pending.extend(other for other in (part.__cause__, part.__context__) if other is not None)
    text = "".join(shown.format()).rstrip()
    if isinstance(error, ModuleNotFoundError) and error.name == "apache_beam":
        text += "\n  to run it on penstock, put --beam before the file's name"
    return text if shown.stack else text.removeprefix("Traceback (most recent call last):\n")


def _frames(error: BaseException) -> str:
    """Return the user's part of a traceback; "" if there is none."""
    stack = _of_user(traceback.extract_tb(error.__traceback__))
    return "".join(["Traceback (most recent call last):\n", *stack.format()]) if stack else ""


def _of_user(stack: traceback.StackSummary) -> traceback.StackSummary:
    return traceback.StackSummary.from_list([frame for frame in stack if _is_shown(frame.filename)])


def _is_shown(file: str) -> bool:
    return not (file.startswith("<frozen ") or file == contextlib.__file__ or is_ours(file))


class ShortErrorsGroup(click.Group):
    """Commands that print penstock's errors in one line, and exit with status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        with _short_errors():
            return super().invoke(ctx)


class ShortErrorsCommand(click.Command):
    """A command that prints penstock's errors in one line, and exits with status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        with _short_errors():
            return super().invoke(ctx)


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """Name the file in the error of one that can't be written, and exit with status 1."""
    try:
        yield
    except OSError as error:
        click.echo(f"{output} can't be written: {error.strerror or error}", err=True)
        sys.exit(1)


@contextmanager
def _short_errors() -> Iterator[None]:
    try:
        yield
    except PenstockError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(1)
