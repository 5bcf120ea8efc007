"""Claims: what only one transform of a pipeline can use, such as a client id; two that use it are refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ..frozen import frozen
from . import graph
from .errors import PipelineError


@frozen
class Claim:
    """A thing outside of the pipeline that a source or a sink uses, and others of the pipeline must not.

    Attributes:
      what: what the transform does, such as "it reads as the client 'kitchen' of mqtt://localhost".
      advice: why no other transform can do it, and what to do.
      key: equal for equal things.
      is_shared: others may use the thing that share it, too.
    """

    what: str
    advice: str
    key: Any = None
    is_shared: bool = False

    def excludes(self, other: Claim) -> bool:
        """Return True if another transform can't have the other claim.

        >>> one, other = Claim("it reads", "", "slot a"), Claim("it looks", "", "slot a", is_shared=True)
        >>> one.excludes(other), other.excludes(other)
        (True, False)
        """
        return self.key is not None and self.key == other.key and not (self.is_shared and other.is_shared)


class Claimant(ABC):
    """A source or a sink that claims something, or a DoFn that reads or writes as they do."""

    @abstractmethod
    def claims(self) -> Sequence[Claim]:
        """Return the claims."""


def claims_of(primitive: graph.Primitive) -> Sequence[Claim]:
    """Return the claims of a primitive transform."""
    found: Any = None
    if isinstance(primitive, graph.Read):
        found = primitive.source
    elif isinstance(primitive, graph.ParDo):
        found = primitive.sink.sink if primitive.sink is not None else primitive.fn and primitive.fn.object[0]
    return found.claims() if isinstance(found, Claimant) else ()


def server_key(host: str, port: Any) -> tuple[str, str]:
    """Return a server as a part of a claim's key: names of this machine are equal.

    >>> server_key("LOCALHOST", 1883) == server_key("127.0.0.1", "1883")
    True
    """
    name = host.lower().strip("[]")
    return ("localhost" if name in ("", "127.0.0.1", "::1") else name), str(port)


def check_claims(label: str, primitive: graph.Primitive, others: Iterable[graph.Transform]) -> None:
    """Raise `PipelineError` if another transform uses what only one of a pipeline can use."""
    claims = claims_of(primitive)
    for other in others if claims else ():
        for theirs in claims_of(other.primitive):
            for ours in claims:
                if ours.excludes(theirs):
                    raise PipelineError(f"{label}: {ours.what}, as {other.label} does already; {ours.advice}")
