"""TaggedOutput: a value for one of the other outputs of a ParDo."""

from __future__ import annotations

from typing import Any


class TaggedOutput:
    """A value on its way to the output with this tag.

    The value may be a `TimestampedValue` or a `WindowedValue`.

    >>> TaggedOutput("errors", 7)
    TaggedOutput('errors', 7)
    """

    __slots__ = ("tag", "value")

    def __init__(self, tag: str, value: Any) -> None:
        if not isinstance(tag, str):
            raise TypeError(f"TaggedOutput: the tag must be a str, got {tag!r}")
        self.tag = tag
        self.value = value

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"
