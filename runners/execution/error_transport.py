"""Errors on their way from a worker to the process that runs the pipeline.

From what is sent the driver makes the same error that one process would have raised.  Spark hands
it a text only: ours carries a line that says what the error was.
"""

from __future__ import annotations

import re

import cloudpickle
import msgspec

from ...sdk.error_text import text_of, traceback_lines
from ...sdk.errors import PenstockError, UserCodeError
from .user_errors import ShortenedError, retold, user_frames, with_user_class

_MARK = "penstock-error:"
_LINE = re.compile(re.escape(_MARK) + r"(\{.*\})")


class RemoteError(msgspec.Struct):
    """What is known of an error that was raised in an executor.

    Attributes:
      kind: its class, pickled; None if that can't be.
      arguments: what it was made of, pickled, if it is ours.
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
    """What a task raises: a text that the driver can read."""

    # Its text is read again, so that it has to stay as it is; what it says of another error is redacted already.
    def __init__(self, *args: object) -> None:
        Exception.__init__(self, *args)


def wrapped(error: Exception) -> TaskFailedError:
    """The error for a task of Spark's to raise instead."""
    sent = remote(error)
    return TaskFailedError(f"{sent.message}\n{_MARK}{msgspec.json.encode(sent).decode()}")


def original(text: str) -> Exception | None:
    """The error that a failed job's text tells of, if it is one of ours."""
    found = _LINE.search(text)
    return None if found is None else local(msgspec.json.decode(found.group(1), type=RemoteError))


def remote(error: Exception) -> RemoteError:
    """What is to be sent of an error."""
    cause = error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ is not None else error
    is_short = isinstance(cause, ShortenedError)
    kind = cause.kind if isinstance(cause, ShortenedError) else type(cause)
    frames = str(cause).lstrip() if is_short else "".join(traceback_lines(cause, user_frames(cause.__traceback__)))
    return RemoteError(
        kind=_pickled(kind),
        message=str(error) if isinstance(error, PenstockError) else text_of(error),
        transform=getattr(error, "transform", ""),
        element=getattr(error, "element", None),
        location=getattr(error, "location", None),
        is_users=isinstance(error, UserCodeError),
        frames=frames,
        arguments=_pickled(cause.args) if isinstance(cause, PenstockError) and cause is error else None,
    )


def local(remote: RemoteError) -> Exception:
    """The error that was raised in a worker, as if it had been raised here."""
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
    """One of ours: of its text, as most are, or of what else it was made of."""
    try:
        made = kind(remote.message)
        return made if str(made) == remote.message else retold(made, remote.message)
    except TypeError:
        try:
            return kind(*cloudpickle.loads(remote.arguments or b""))
        except Exception:  # whatever it asks for that can't be had here
            return PenstockError(remote.message)


class RemoteTraceback(Exception):
    """The user's part of a traceback in an executor, as text."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def _pickled(what: object) -> bytes | None:
    try:
        return cloudpickle.dumps(what, protocol=5)  # type: ignore[no-any-return]
    except Exception:  # whatever pickle raises for what it can't pickle
        return None


def _class(pickled: bytes | None) -> type[Exception]:
    """The class that was pickled in an executor; Exception if it can't be had here."""
    try:
        found = cloudpickle.loads(pickled or b"")
    except Exception:  # whatever importing the user's module raises
        return Exception
    return found if isinstance(found, type) and issubclass(found, Exception) else Exception
