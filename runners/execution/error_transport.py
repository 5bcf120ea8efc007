"""Transport of errors from a worker to the process that runs the pipeline.

That process raises the same error that a run in one process would have raised.  Spark transports only text: ours has a
line with the encoded error.
"""

from __future__ import annotations

import re

import cloudpickle
import msgspec

from ...sdk.errors import PenstockError, UserCodeError
from ...sdk.user_code.error_text import text_of, traceback_lines
from ...sdk.user_code.pickler import pickled
from .user_errors import ShortenedError, retold, user_frames, with_user_class

_MARK = "penstock-error:"
_LINE = re.compile(re.escape(_MARK) + r"(\{.*\})")


class RemoteError(msgspec.Struct):
    """An error of a worker, as data.

    Attributes:
      kind: its class, pickled; None if it can't be pickled.
      arguments: its arguments, pickled, if it is a `PenstockError`.
      message: its text.
      frames: the user's part of its traceback, formatted.
    """

    kind: bytes | None
    message: str
    transform: str
    element: str | None
    location: str | None
    is_users: bool
    frames: str
    arguments: bytes | None = None


class TaskFailedError(PenstockError):
    """The error of a Spark task, with a text that the driver can decode."""

    # The text is decoded again, so it must not be redacted; the message in it is redacted already.
    def __init__(self, *args: object) -> None:
        Exception.__init__(self, *args)


def wrapped(error: Exception) -> TaskFailedError:
    """Return the error for a Spark task to raise instead."""
    sent = remote(error)
    return TaskFailedError(f"{sent.message}\n{_MARK}{msgspec.json.encode(sent).decode()}")


def original(text: str) -> Exception | None:
    """Return the error encoded in a failed job's text; None if there is none."""
    found = _LINE.search(text)
    return None if found is None else local(msgspec.json.decode(found.group(1), type=RemoteError))


def remote(error: Exception) -> RemoteError:
    """Return an error as data."""
    cause = error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ is not None else error
    is_short = isinstance(cause, ShortenedError)
    kind = cause.kind if isinstance(cause, ShortenedError) else type(cause)
    frames = str(cause).lstrip() if is_short else "".join(traceback_lines(cause, user_frames(cause.__traceback__)))
    return RemoteError(
        kind=_pickled(kind),
        message=str(error) if isinstance(error, PenstockError) else _named(error),
        transform=getattr(error, "transform", ""),
        element=getattr(error, "element", None),
        location=getattr(error, "location", None),
        is_users=isinstance(error, UserCodeError),
        frames=frames,
        arguments=_pickled(cause.args) if isinstance(cause, PenstockError) and cause is error else None,
    )


def local(remote: RemoteError) -> Exception:
    """Return a worker's error, as if it had been raised here."""
    kind = _class(remote.kind)
    if not remote.is_users:
        ours = _made_again(kind, remote) if issubclass(kind, PenstockError) else PenstockError(remote.message)
        ours.transform = remote.transform
        return ours
    made = with_user_class(kind, remote.message)
    made.transform, made.element, made.location = remote.transform, remote.element, remote.location
    made.__cause__ = RemoteTraceback(remote.frames)
    return made


def _made_again(kind: type[PenstockError], remote: RemoteError) -> PenstockError:
    """Return a `PenstockError` made of its text, as most are, or of its other arguments."""
    try:
        made = kind(remote.message)
        return made if str(made) == remote.message else retold(made, remote.message)
    except TypeError:
        try:
            return kind(*cloudpickle.loads(remote.arguments or b""))
        except Exception:  # its arguments may not exist here
            return PenstockError(remote.message)


class RemoteTraceback(Exception):
    """The user's part of a worker's traceback, as text."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def _named(error: Exception) -> str:
    """Return the text of an error that may arrive as a `PenstockError`, with its class, since the text alone may be
    empty, or a key."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _pickled(what: object) -> bytes | None:
    try:
        return pickled(what)
    except Exception:  # pickle raises many types
        return None


def _class(pickled: bytes | None) -> type[Exception]:
    """Return the pickled class; Exception if it can't be imported here."""
    try:
        found = cloudpickle.loads(pickled or b"")
    except Exception:  # any error of importing the user's module
        return Exception
    return found if isinstance(found, type) and issubclass(found, Exception) else Exception
