"""Wrappers of a user function's outputs: WindowedValue, TaggedOutput, Retracted, BatchOutput and Remainder."""

from __future__ import annotations

from collections.abc import Iterable
from types import GenericAlias
from typing import Any

from ...frozen import frozen
from ...persistence import restores, stored_as
from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ...windowing.global_windows import makes_windowed_values
from ...windowing.timestamp import MIN_MICROS, Timestamp
from ...windowing.timestamped_value import TimestampedValue
from ...windowing.windows import BoundedWindow
from .bundle import GLOBAL_WINDOWS, Windows
from .defensive_copy import copied_by_fields, never_copied


@copied_by_fields("tag", "value")
@stored_as("tagged-output", 1, lambda output: (output.tag, output.value))
class TaggedOutput:
    """A value for the output with this tag.

    The value may be a `TimestampedValue` or a `WindowedValue`.

    >>> TaggedOutput("errors", 7)
    TaggedOutput('errors', 7)
    """

    __slots__ = ("tag", "value")
    # In annotations: TaggedOutput[Literal["errors"], str].
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, tag: str, value: Any) -> None:
        if not isinstance(tag, str):
            raise TypeError(f"Attempting to create a TaggedOutput with non-string tag {tag!r}; the tag must be a str")
        self.tag = tag
        self.value = value

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"


@copied_by_fields("value")
@stored_as("retracted", 1, lambda retracted: (retracted.value,))
class Retracted:
    """A value that a DoFn retracts: an output with sign -1.

    A function with `DoFn.SignParam` decides on the signs of its outputs: they have sign +1 unless they are wrapped in
    `Retracted`.  A DoFn that retracts outputs though its input has no retractions sets `retracts = True`.  The value
    may be a `TimestampedValue` or a `WindowedValue`, and the whole may be in a `TaggedOutput`.  (Dataflow Model,
    section 2.3.)

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


def windowed_value_of_micros(
    value: Any, timestamp_micros: int, windows: Iterable[BoundedWindow], pane_info: PaneInfo = PANE_INFO_UNKNOWN
) -> WindowedValue:
    """Return a `WindowedValue` with a timestamp in microseconds.

    >>> from penstock.windowing import GlobalWindow
    >>> windowed_value_of_micros("a", 5_000_000, [GlobalWindow()]).timestamp
    Timestamp(5)
    """
    return WindowedValue(value, Timestamp.of_micros(timestamp_micros), windows, pane_info)


@copied_by_fields("value", "micros", "windows", "pane_info")
@makes_windowed_values
class WindowedValue:
    """A value with its event timestamp, windows and pane.

    Raises `ValueError` if the timestamp is outside of Beam's range.

    >>> from penstock.windowing import GlobalWindow
    >>> WindowedValue("a", 5, [GlobalWindow()]).timestamp
    Timestamp(5)
    """

    __slots__ = ("micros", "pane_info", "value", "windows")

    def __init__(
        self,
        value: Any,
        timestamp: Any,
        windows: Iterable[BoundedWindow],
        pane_info: PaneInfo = PANE_INFO_UNKNOWN,
    ) -> None:
        self.value = value
        self.micros = Timestamp.of(timestamp).micros
        self.windows: Windows = tuple(windows)
        self.pane_info = pane_info

    @property
    def timestamp(self) -> Timestamp:
        return Timestamp.of_micros(self.micros)

    def with_value(self, value: Any) -> WindowedValue:
        """Return another value with the same timestamp, windows and pane."""
        return WindowedValue(value, self.timestamp, self.windows, self.pane_info)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is WindowedValue
            and self.micros == other.micros
            and self.value == other.value
            and tuple(self.windows) == tuple(other.windows)
            and self.pane_info == other.pane_info
        )

    def __hash__(self) -> int:
        return hash((self.value, self.micros, tuple(self.windows), self.pane_info))

    def __repr__(self) -> str:
        return f"WindowedValue({self.value!r}, {self.timestamp}, {list(self.windows)!r}, {self.pane_info!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_windowed, (self.value, self.timestamp, self.windows, self.pane_info))


@restores("windowed-value", 1, WindowedValue)
def _windowed(value: Any, timestamp: Timestamp, windows: Windows, pane_info: PaneInfo) -> WindowedValue:
    return WindowedValue(value, timestamp, windows, pane_info)


@copied_by_fields("converter", "batch")
class BatchOutput:
    """A batch as one output: its elements, with the input's timestamp, windows, pane and sign.

    Attributes:
      converter: the `BatchConverter` of the batch.
    """

    __slots__ = ("batch", "converter")

    def __init__(self, converter: Any, batch: Any) -> None:
        self.converter = converter
        self.batch = batch


@never_copied
@stored_as("remainder", 1)
@frozen
class Remainder:
    """The last output of a function that interrupts its work on an element.  The function is called with it again.

    Attributes:
      element: the element.
      restrictions: the unfinished restrictions.
      state: the state of the watermark estimator for the first restriction; None without an estimator.
    """

    element: Any
    restrictions: tuple[Any, ...]
    state: Any = None


copied_by_fields("at", "value")(TimestampedValue)

# Types that a user function may return instead of a plain value.
SPECIAL_TYPES = frozenset({TimestampedValue, WindowedValue, TaggedOutput, Retracted, Remainder, BatchOutput})


def unwrapped(
    element: Any,
    micros: int = MIN_MICROS,
    windows: Windows = GLOBAL_WINDOWS,
    pane: PaneInfo = PANE_INFO_UNKNOWN,
) -> tuple[Any, int, Windows, PaneInfo]:
    """Return an output as `(value, micros, windows, pane)`, with the input's properties as defaults.

    A surrounding `TaggedOutput` or `Retracted` was removed before.
    """
    kind = type(element)
    if kind is TimestampedValue:
        return element.value, element.micros, windows, pane
    if kind is WindowedValue:
        return element.value, element.micros, tuple(element.windows), element.pane_info
    return element, micros, windows, pane
