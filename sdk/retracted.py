"""Retracted: an output that takes back an earlier one."""

from __future__ import annotations

from typing import Any


class Retracted:
    """A value that a DoFn takes back: an output with sign -1.

    A function that asks for `DoFn.SignParam` decides on the signs of its outputs: what it
    yields has sign +1 unless it is wrapped in this.  A DoFn that takes outputs back though
    nothing of its input is taken back says `retracts = True`.  The value may be a `TimestampedValue` or
    a `WindowedValue`; around both may be a `TaggedOutput`.  (Dataflow Model, section 2.3.)

    >>> Retracted(7)
    Retracted(7)
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Retracted and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((Retracted, self.value))

    def __repr__(self) -> str:
        return f"Retracted({self.value!r})"
