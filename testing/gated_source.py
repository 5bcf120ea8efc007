"""GatedSource: whole numbers that a test lets through, by a file that any process can read."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..sdk.elements.bundle import Bundle
from ..sdk.sources.unbounded import UnboundedReader, UnboundedSource
from ..windowing.timestamp import MAX_MICROS, Timestamp

# The numbers of one poll, so that a bundle has some.
_AT_A_TIME = 7

_PARTITIONS = 2


class Gate:
    """The file of a `GatedSource`: how many numbers it has let through, and whether others follow.

    >>> import tempfile
    >>> gate = Gate(tempfile.mkdtemp() + "/gate")
    >>> gate.open(5)
    >>> gate.state()
    (5, False)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)

    def open(self, count: int, is_last: bool = False) -> None:
        """Let the numbers below a count through."""
        hidden = pathlib.Path(f"{self.path}.partial")
        hidden.write_text(f"{count} {int(is_last)}")
        hidden.replace(self.path)

    def state(self) -> tuple[int, bool]:
        """Return the count, and whether no other numbers follow."""
        count, is_last = pathlib.Path(self.path).read_text().split()
        return int(count), is_last == "1"


class GatedSource(UnboundedSource[int]):
    """The numbers from 0 on that a gate lets through, in two partitions.  A number is its timestamp in seconds."""

    repeatable = True

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def partitions(self) -> Sequence[int]:
        return range(_PARTITIONS)

    def identity(self) -> Mapping[str, Any]:
        return {"gate": self.gate.path}

    def open(self, partition: int, offset: int | None) -> UnboundedReader[int]:
        return _GatedReader(self.gate, partition if offset is None else offset)


class _GatedReader(UnboundedReader[int]):
    def __init__(self, gate: Gate, next: int) -> None:
        self._gate = gate
        self._next = next

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        stop = min(self._gate.state()[0], self._next + _PARTITIONS * min(max_elements, _AT_A_TIME))
        numbers = list(range(self._next, stop, _PARTITIONS))
        if not numbers:
            return None
        self._next = numbers[-1] + _PARTITIONS
        return Bundle(numbers, [Timestamp(number).micros for number in numbers])

    def offset(self) -> int:
        return self._next

    def watermark(self, now: Timestamp) -> int:
        return MAX_MICROS if self.is_finished() else Timestamp(self._next).micros

    def is_finished(self) -> bool:
        count, is_last = self._gate.state()
        return is_last and self._next >= count
