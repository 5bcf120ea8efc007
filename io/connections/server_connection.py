"""ServerConnection: the base class of what transforms know of a server: its errors in words, and the wait for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import quote, quote_plus

import attrs

from ...sdk.errors import PenstockError, RejectedRecordError, SinkError, SourceError
from ...sdk.redaction import HIDDEN, redacted_cause
from .lost_connections import is_lost
from .waiting import WAITS, Outage, patiently

T = TypeVar("T")


class ServerConnection(ABC):
    """A server, a database or a table as one transform uses it: the base class of classes of attrs.

    Its text shows the address only.

    Attributes:
      service: what the server is, such as 'NATS'.
      transform: the label for messages.
    """

    service: ClassVar[str]
    transform: str
    # True if this process has reached the server.
    _is_known = False

    @property
    @abstractmethod
    def shown(self) -> str:
        """The address, without secrets."""

    @property
    def server(self) -> str:
        """The server, for messages."""
        return f"{self.service} at {self.shown}"

    @abstractmethod
    def said(self, error: Any) -> str:
        """Return what an error of the client says, without secrets."""

    def advice(self, error: Any) -> str:
        """Return what to do about an error, such as "; is a server running there?"."""
        return ""

    def is_own(self, error: Exception) -> bool:
        """Return True for an error that `explained` converts: one of the client."""
        return False

    def is_unnamed(self, error: PenstockError) -> bool:
        """Return True for an error to which `explained` adds the transform and the server."""
        return isinstance(error, RejectedRecordError) and not error.transform

    def may_answer(self, error: BaseException) -> bool:
        """Return True for an error of a server that may answer later."""
        return is_lost(error)

    def failed(self, what: str) -> str:
        """Return what failed, with the server."""
        return f"{what}: {self.server}"

    def error(
        self, what: str, error: Any = None, kind: type[SourceError] | type[SinkError] = SourceError
    ) -> SourceError | SinkError:
        """Return the error to raise for one of the client, or for what was found.

        Args:
          what: what failed, such as "stream 'orders' can't be read".
          error: the client's; None without one.
        """
        why = "" if error is None else f": {self.said(error)}{self.advice(error)}"
        found = kind(f"{self.transform}: {self.failed(what)}{why}")
        found.transform = self.transform
        return found

    def cause(self, error: BaseException | None) -> BaseException | None:
        """Return an error of the client as the cause of a raised one; None if its text has a secret."""
        return redacted_cause(error)

    @contextmanager
    def explained(self, what: str, kind: type[SourceError] | type[SinkError] = SourceError) -> Iterator[None]:
        """Convert the client's errors into errors that name the transform and the server, without secrets.

        Args:
          what: as that of `error`.
        """
        try:
            yield
        except PenstockError as error:
            if not self.is_unnamed(error):
                raise
            named = type(error)(f"{self.transform}: {self.failed(what)}: {error}")
            named.__dict__.update(error.__dict__ | {"transform": self.transform})
            raise named from error.__cause__
        except Exception as error:
            if not self.is_own(error):
                raise
            raise self.error(what, error, kind) from self.cause(error)

    def patiently(self, call: Callable[[], T], seconds: float = WAITS) -> T:
        """Return the result of a call; while the server doesn't answer, call again; see `waiting.patiently`."""
        return patiently(self.transform, self.server, call, seconds, self.may_answer, self.said)

    def reached(self, what: str, call: Callable[[], T], kind: type[SourceError] | type[SinkError] = SinkError) -> T:
        """Return the result of a call, with its errors explained.

        Once this process has reached the server, a lost one is waited for.  The call is made again, though it may have
        had its effect.
        """
        with self.explained(what, kind):
            found = self.patiently(call, WAITS if self._is_known else 0)
            self._is_known = True
            return found

    def outage(self) -> Outage:
        """Return the outages of the server, for a reader."""
        return Outage(self.transform, self.server, self.said, self.may_answer)

    def labelled(self, transform: str) -> Self:
        """Return the connection of the transform with another label."""
        twin: Self = attrs.evolve(self, transform=transform)  # type: ignore[misc]
        return twin

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"


def hidden(text: str, secrets: Iterable[str | None]) -> str:
    """Return a text without secrets.  Very short ones are left: they would be found everywhere.

    >>> hidden("ann:secret is refused", ["secret", None])
    'ann:*** is refused'
    """
    for secret in secrets:
        if secret is not None and len(secret) > 2:
            text = text.replace(secret, HIDDEN)
    return text


def as_in_urls(secrets: Iterable[str]) -> list[str]:
    """Return secrets as drivers repeat them: unquoted, and quoted as in a URL.

    >>> as_in_urls(["a b"])
    ['a b', 'a%20b', 'a+b']
    """
    return [form for secret in secrets for form in (secret, quote(secret), quote_plus(secret))]
