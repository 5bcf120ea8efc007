"""Beam's events of a TestStream, which programs make and compare: `TestStream(events=[ElementEvent(...)])`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import total_ordering
from typing import Any

from ..sdk.elements.element_wrappers import WindowedValue
from ..sdk.elements.row import Row
from ..windowing import Duration, Timestamp, TimestampedValue

_ROW_URN = "beam:coder:row:v1"


@total_ordering
class Event(ABC):
    """Base class of the events.  Events of one class are ordered."""

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """Return what events of this class are compared by, in order of precedence."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and type(self) is type(other) and self._key() == other._key()

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Event) or type(self) is not type(other):
            raise TypeError(f"{type(self).__name__}: can't be compared with {other!r}")
        return bool(self._key()[0] < other._key()[0])

    def __hash__(self) -> int:
        return hash(self._key())


class ElementEvent(Event):
    """Arrival of elements as one bundle.

    Attributes:
      timestamped_values: a list of `TimestampedValue`s.
      tag: the tag of the output; None for the main output.

    >>> from penstock.window import TimestampedValue
    >>> ElementEvent([TimestampedValue("a", 5)])
    ElementEvent: <[('a', Timestamp(5))], None>
    """

    def __init__(self, timestamped_values: Sequence[TimestampedValue], tag: str | None = None) -> None:
        self.timestamped_values = timestamped_values
        self.tag = tag

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.timestamped_values), self.tag

    def __repr__(self) -> str:
        return f"ElementEvent: <{[(each.value, each.timestamp) for each in self.timestamped_values]}, {self.tag}>"


class WatermarkEvent(Event):
    """Move of the watermark.

    Attributes:
      new_watermark: a `Timestamp`.
      tag: the tag of the output; None for the main output.

    >>> WatermarkEvent(10).new_watermark
    Timestamp(10)
    """

    def __init__(self, new_watermark: Any, tag: str | None = None) -> None:
        self.new_watermark = Timestamp.of(new_watermark)
        self.tag = tag

    def _key(self) -> tuple[Any, ...]:
        return self.new_watermark, self.tag

    def __repr__(self) -> str:
        return f"WatermarkEvent: <{self.new_watermark}, {self.tag}>"


class ProcessingTimeEvent(Event):
    """Advance of the processing time.

    Attributes:
      advance_by: a `Duration`.

    >>> ProcessingTimeEvent(60) == ProcessingTimeEvent(60), ProcessingTimeEvent(1) < ProcessingTimeEvent(60)
    (True, True)
    """

    def __init__(self, advance_by: Any) -> None:
        self.advance_by = Duration.of(advance_by)

    def _key(self) -> tuple[Any, ...]:
        return (self.advance_by,)

    def __repr__(self) -> str:
        return f"ProcessingTimeEvent: <{self.advance_by}>"


class WindowedValueHolderMeta(type):
    """Class of `WindowedValueHolder`, of which a Row with its fields is an instance, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        fields = instance.as_dict() if isinstance(instance, Row) else {}
        return fields.get("urn") == _ROW_URN and isinstance(fields.get("windowed_value"), WindowedValue)


class WindowedValueHolder(Row, metaclass=WindowedValueHolderMeta):
    """An element of a TestStream that arrives with the timestamp and the windows of a `WindowedValue`.

    Raises `AssertionError` for other values.

    >>> from penstock.utils.windowed_value import WindowedValue
    >>> WindowedValueHolder(WindowedValue("a", 5, [])).windowed_value.value
    'a'
    """

    def __init__(self, windowed_value: WindowedValue) -> None:
        if not isinstance(windowed_value, WindowedValue):
            raise AssertionError(f"WindowedValueHolder: expected a WindowedValue, got {windowed_value!r}")
        super().__init__(windowed_value=windowed_value, urn=_ROW_URN)

    @classmethod
    def from_row(cls, row: Any) -> WindowedValueHolder:
        """Return the holder of a Row's `windowed_value`.  Raises `AssertionError` for a Row without one."""
        found: Any = row.as_dict().get("windowed_value") if isinstance(row, Row) else None
        return WindowedValueHolder(found)

    def __reduce__(self) -> tuple[Any, ...]:
        return WindowedValueHolder, (self.windowed_value,)
