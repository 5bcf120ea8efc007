"""ServerConnection: the base class of what transforms know of a server: how to connect, and its errors in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import attrs

from ..sdk.errors import SinkError, SourceError


class ServerConnection(ABC):
    """How a transform connects to a server: the base class of classes of attrs.  Its text shows the address only.

    Attributes:
      service: what the server is, such as 'NATS'.
      transform: the label for messages.
    """

    service: ClassVar[str]
    transform: str

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

    def error(
        self, what: str, error: Any, kind: type[SourceError] | type[SinkError] = SourceError
    ) -> SourceError | SinkError:
        """Return the error to raise for one of the client.

        Args:
          what: what failed, such as "stream 'orders' can't be read".
        """
        return kind(f"{self.transform}: {what}: {self.server}: {self.said(error)}{self.advice(error)}")

    def labelled(self, transform: str) -> Self:
        """Return the connection of the transform with another label."""
        twin: Self = attrs.evolve(self, transform=transform)  # type: ignore[misc]
        return twin

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"


def hidden(text: str, secrets: Any) -> str:
    """Return a text without secrets.  Very short ones are left: they would be found everywhere.

    >>> hidden("ann:secret is refused", ["secret", None])
    'ann:*** is refused'
    """
    for secret in secrets:
        if secret is not None and len(secret) > 2:
            text = text.replace(secret, "***")
    return text
