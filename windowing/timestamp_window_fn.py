"""TimestampWindowFn: a window function of the timestamp alone.

All built-in window functions are of this kind.  They are values: equal if type and arguments are.
"""

from __future__ import annotations

from typing import Any

from .duration import Duration, micros_of_span
from .window_fn import WindowFn
from .windows import BoundedWindow


class TimestampWindowFn(WindowFn):
    """Base class of window functions of a timestamp in microseconds, which implement `assign_micros`.

    Public attributes are the arguments.  Private attributes are derived from them.

    >>> from penstock.windowing import FixedWindows
    >>> FixedWindows(60), FixedWindows(60) == FixedWindows(60.0), FixedWindows(60) == FixedWindows(61)
    (FixedWindows(size=Duration(60), offset=Duration(0)), True, False)
    """

    depends_only_on_timestamp = True

    def assign_micros(self, micros: int) -> tuple[BoundedWindow, ...]:
        """Return the windows of a timestamp in microseconds."""
        raise NotImplementedError(f"{type(self).__name__} must implement assign_micros")

    def _arguments(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash((type(self), *self._arguments().values()))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({arguments})"


def quotient(micros: Any, offset: int, size: int) -> Any:
    """Return `(micros - offset) // size` of a timestamp or an array of timestamps; their difference may overflow.

    Args:
      offset: at least 0, and less than the size.

    >>> quotient(25, 5, 10), quotient(24, 5, 10)
    (2, 1)
    """
    return micros // size - (micros % size < offset) if offset else micros // size


def positive_duration(name: str, seconds: Any) -> Duration:
    """Return an argument as a Duration.  Raises `ValueError` unless it is positive.

    >>> positive_duration("size", 60)
    Duration(60)
    """
    duration = Duration.of_micros(micros_of_span(seconds, name))
    if duration.micros <= 0:
        raise ValueError(f"{name} must be positive (and at least a microsecond), got {seconds!r}")
    return duration
