"""Attempts: which execution of each task the others have read.

A cluster computes a task again if its output is lost, after other tasks have read some of it.  User code that isn't
deterministic may then have produced other elements.  So every execution of a task has a token, which goes along with
its output.  Each task passes on which tokens it has read, and the driver compares what arrives with the results: all
have to have read the same execution of each task.

In batch a token is the hash of what a task has sent, so two executions with the same output are one.  What is passed on
is the hash of the tokens of all tasks of a segment, since every task behind a shuffle reads all of them.  A task that
reads a stored PCollection reads one task only, and passes on its token.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b, sha256
from typing import TypeVar

import attrs

from ....frozen import frozen

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


def joined(every: Iterable[Mapping[K, AbstractSet[V]]]) -> dict[K, frozenset[V]]:
    """Return the attempts that several readers have read, each given by task or segment."""
    found: dict[K, frozenset[V]] = {}
    for read in every:
        for of, attempts in read.items():
            found[of] = found.get(of, frozenset()) | attempts
    return found


def mixed(read: Mapping[K, AbstractSet[V]]) -> set[K]:
    """Return the tasks or segments of which several attempts were read.

    >>> mixed(joined([{"a": {1}, "b": {1}}, {"a": {2}}, {"b": {1}}]))
    {'a'}
    """
    return {of for of, attempts in read.items() if len(attempts) > 1}


@frozen
class TaskAttempt:
    """An execution of one task of a batch, and what it has read.

    Attributes:
      segment, partition: identify the task.
      token: the same only for an execution with the same output.
      read: by segment, the digests of the attempts of all its tasks; several if tasks before this one differed.
      parts: the segment, the partition and the token of each task that was read without the others of its segment.
    """

    segment: int
    partition: int
    token: bytes
    read: Mapping[int, AbstractSet[bytes]] = attrs.field(factory=dict)
    parts: tuple[tuple[int, int, bytes], ...] = ()


def all_read(attempts: Iterable[TaskAttempt]) -> dict[int, frozenset[bytes]]:
    """Return the digests of the attempts that a reader of all tasks of some segments has read, by segment.

    >>> first, second = TaskAttempt(0, 0, b"x"), TaskAttempt(0, 1, b"y")
    >>> all_read([first, second]) == all_read([second, first])
    True
    >>> len(all_read([TaskAttempt(1, 0, b"", all_read([first])), TaskAttempt(1, 1, b"", all_read([second]))])[0])
    2
    """
    found: dict[int, set[bytes]] = {}
    # By segment, and the one whose tasks have read it in parts, the tokens.
    tokens: dict[tuple[int, int], set[tuple[int, bytes]]] = {}
    for attempt in attempts:
        tokens.setdefault((attempt.segment, attempt.segment), set()).add((attempt.partition, attempt.token))
        for segment, digests in attempt.read.items():
            found.setdefault(segment, set()).update(digests)
        for segment, partition, token in attempt.parts:
            tokens.setdefault((segment, attempt.segment), set()).add((partition, token))
    for (segment, _), own in tokens.items():
        found.setdefault(segment, set()).add(blake2b(repr(sorted(own)).encode(), digest_size=16).digest())
    return {segment: frozenset(digests) for segment, digests in found.items()}


def in_parts(attempts: Iterable[TaskAttempt]) -> tuple[tuple[int, int, bytes], ...]:
    """Return the `parts` of a task that has read these attempts, without the others of their segments."""
    return tuple(part for each in attempts for part in ((each.segment, each.partition, each.token), *each.parts))


class OutputDigest:
    """The hash of what a task has sent."""

    def __init__(self) -> None:
        # Of those that are safe, the one that processors have instructions for.
        self._hash = sha256()

    def add(self, destination: tuple[str, object], group: int, block: bytes) -> None:
        """Add a block."""
        self._hash.update(f"{destination}{group}:{len(block)}:".encode())
        self._hash.update(block)

    def result(self) -> bytes:
        """Return the hash, 32 bytes."""
        return self._hash.digest()
