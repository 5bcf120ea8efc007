"""Windows: finite intervals of event time for grouping (Dataflow Model, section 2.2).

A watermark of t promises that no element before t will arrive (MillWheel, section 3.3).  The window [0, 10) is complete
at watermark 10: at 9.999999 an element of its last microsecond may still be on time.  The window expires when the
watermark is past its end plus the allowed lateness: with a lateness of 5 an element is kept at 15, and dropped after.

>>> end = end_of_window(IntervalWindow(0, 10))
>>> end, expiry_of(end, lateness=5_000_000)
(10000000, 15000001)
"""

from __future__ import annotations

from typing import Any

from ..persistence import restores
from .timestamp import MAX_MICROS, MIN_MICROS, MIN_TIMESTAMP, Timestamp, TimestampTypes, in_range, micros_of

# Users' functions ask each element's window for its start, and elements of a window come together: the latest start is
# kept, and a call of `Timestamp.of_micros` is saved.
_last_start = Timestamp(0)
_new = object.__new__

# Beam's: a day before MAX_TIMESTAMP, so that the watermark can pass the end of a window.
GLOBAL_WINDOW_MAX_MICROS = MAX_MICROS - 86_400_000_000


class BoundedWindow:
    """Base class of all windows, which have an end.

    Two windows of a user's class are equal if all of their attributes are.

    Args:
      end: seconds or Timestamp; the first instant after the window.

    >>> from penstock.windowing import BoundedWindow
    >>> class Shift(BoundedWindow):
    ...     def __init__(self, end, crew):
    ...         super().__init__(end)
    ...         self.crew = crew
    >>> Shift(8, "red").max_timestamp(), Shift(8, "red") == Shift(8, "red"), Shift(8, "red") == Shift(8, "blue")
    (Timestamp(7.999999), True, False)
    """

    # Without attributes, since IntervalWindow is a tuple.  A user's subclass has a dictionary.
    __slots__ = ()
    _end: Timestamp

    def __init__(self, end: TimestampTypes) -> None:
        if type(self) is BoundedWindow:
            raise TypeError("BoundedWindow is a base class; use IntervalWindow(start, end) or derive from it")
        object.__setattr__(self, "_end", Timestamp.of(end))

    @property
    def end(self) -> Timestamp:
        """The first instant after the window."""
        return self._end

    def max_timestamp(self) -> Timestamp:
        """Return the last instant of the window, at most MAX_TIMESTAMP."""
        return Timestamp.of_micros(min(self.end.micros - 1, MAX_MICROS))

    @property
    def max_micros(self) -> int:
        """The last microsecond of the window."""
        return self.max_timestamp().micros

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.end)

    def __repr__(self) -> str:
        return f"[?, {float(self.end)})"


class IntervalWindow(tuple[int, int], BoundedWindow):
    """The window [start, end) of event time.

    A tuple of start and end in microseconds, which is hashed and compared in C, since windows are looked up in
    dictionaries for every element.  Ordered by start, then end.  Raises the errors of `Timestamp`, and `ValueError` if
    the end is before the start.

    A subclass may have an `__init__` of its own, which calls `super().__init__(start, end)`; it runs twice.

    >>> from penstock.windowing import IntervalWindow
    >>> window = IntervalWindow(60, 120)
    >>> window, window.max_timestamp(), window.union(IntervalWindow(90, 180))
    ([60.0, 120.0), Timestamp(119.999999), [60.0, 180.0))
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> IntervalWindow:
        if cls.__init__ is not IntervalWindow.__init__:
            # A tuple is complete before its __init__: a first run, on another tuple, tells the start and the end.
            given = _Given(cls)
            cls.__init__(given.window, *args, **kwargs)
            args, kwargs = given.interval(), {}
        return tuple.__new__(cls, _interval_of(*args, **kwargs))

    # Without this, BoundedWindow's method would run.
    def __init__(self, start: TimestampTypes, end: TimestampTypes) -> None:
        if tuple.__len__(self) == 1:
            tuple.__getitem__(self, 0).append((start, end))  # type: ignore[attr-defined]

    def __init_subclass__(cls) -> None:
        # A tuple's __ne__ doesn't ask __eq__.
        if "__eq__" in vars(cls) and "__ne__" not in vars(cls):
            cls.__ne__ = object.__ne__  # type: ignore[method-assign]

    @classmethod
    def of_micros(cls, start: int, end: int) -> IntervalWindow:
        """Return the window between two numbers of microseconds, unchecked.

        >>> from penstock.windowing import IntervalWindow
        >>> IntervalWindow.of_micros(0, 1_000_000)
        [0.0, 1.0)
        """
        return tuple.__new__(cls, (start, end))

    @property
    def start_micros(self) -> int:
        """The first microsecond inside."""
        return self[0]

    @property
    def end_micros(self) -> int:
        """The first microsecond after."""
        return self[1]

    @property
    def max_micros(self) -> int:
        """The last microsecond inside."""
        end = self[1]
        return end - 1 if end <= MAX_MICROS else MAX_MICROS

    @property
    def start(self) -> Timestamp:
        """The first instant inside."""
        global _last_start
        start, micros = _last_start, self[0]
        if start.micros != micros:
            start = _new(Timestamp)
            start.micros = micros
            _last_start = start
        return start

    @property
    def end(self) -> Timestamp:
        """The first instant after."""
        end = _new(Timestamp)
        end.micros = self[1]
        return end

    def intersects(self, other: IntervalWindow) -> bool:
        """Return whether the windows have an instant in common."""
        return self[0] < other[1] and other[0] < self[1]

    def union(self, other: IntervalWindow) -> IntervalWindow:
        """Return the smallest window that contains both."""
        return IntervalWindow.of_micros(min(self[0], other[0]), max(self[1], other[1]))

    def __repr__(self) -> str:
        return f"[{float(self.start)}, {float(self.end)})"

    def __reduce__(self) -> tuple[Any, ...]:
        if type(self) is IntervalWindow:
            return (_interval, (self[0], self[1]))
        return (_interval, (self[0], self[1], type(self)), getattr(self, "__dict__", None))


def _interval_of(start: TimestampTypes, end: TimestampTypes) -> tuple[int, int]:
    first, limit = micros_of(start), in_range(micros_of(end))
    if first >= MIN_MICROS or limit == MIN_MICROS:
        # Otherwise it may be the window of MIN_TIMESTAMP, which begins before that.
        in_range(first)
    if limit < first:
        raise ValueError(f"expected a window that ends after its start, got start {start!r} and end {end!r}")
    return first, limit


class _Given:
    """The arguments with which a subclass calls `IntervalWindow.__init__`."""

    def __init__(self, kind: type[IntervalWindow]) -> None:
        self.kind = kind
        self._calls: list[tuple[TimestampTypes, TimestampTypes]] = []
        # Its one item is the list to which `IntervalWindow.__init__` appends.
        self.window = tuple.__new__(kind, (self._calls,))

    def interval(self) -> tuple[TimestampTypes, TimestampTypes]:
        if not self._calls:
            raise TypeError(f"{self.kind.__name__}.__init__ must call super().__init__(start, end)")
        return self._calls[0]


@restores("interval-window", 1, IntervalWindow)
def _interval(start: int, end: int, kind: type[IntervalWindow] = IntervalWindow) -> IntervalWindow:
    return kind.of_micros(start, end)


class GlobalWindow(BoundedWindow):
    """The window of all time.  Every `GlobalWindow()` is the same object.

    >>> from penstock.windowing import GlobalWindow
    >>> GlobalWindow() is GlobalWindow(), GlobalWindow()
    (True, GlobalWindow)
    """

    __slots__ = ()
    _instance: GlobalWindow | None = None

    def __new__(cls) -> GlobalWindow:
        if GlobalWindow._instance is None:
            GlobalWindow._instance = object.__new__(GlobalWindow)
        return GlobalWindow._instance

    def __init__(self) -> None:
        pass

    @property
    def start(self) -> Timestamp:
        """MIN_TIMESTAMP."""
        return MIN_TIMESTAMP

    @property
    def end(self) -> Timestamp:
        """The first instant after."""
        return Timestamp.of_micros(GLOBAL_WINDOW_MAX_MICROS + 1)

    @property
    def max_micros(self) -> int:
        """The last microsecond inside: a day before MAX_TIMESTAMP."""
        return GLOBAL_WINDOW_MAX_MICROS

    # A singleton, which is compared by identity, in C.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "GlobalWindow"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_global_window, ())


@restores("global-window", 1, GlobalWindow)
def _global_window() -> GlobalWindow:
    return GLOBAL_WINDOW


GLOBAL_WINDOW = GlobalWindow()


# --- The times at which a window is complete, and has expired


def lifetime_of(window: BoundedWindow, lateness: int) -> tuple[int, int]:
    """Return the least watermarks, in microseconds, at which a window is complete and at which it has expired."""
    end = window.max_micros + 1
    if end > MAX_MICROS:
        return MAX_MICROS, MAX_MICROS
    expiry = end + lateness + 1
    return end, expiry if expiry < MAX_MICROS else MAX_MICROS


def end_of_window(window: BoundedWindow) -> int:
    """Return the least watermark, in microseconds, at which a window is complete."""
    last = window.max_micros
    return last + 1 if last < MAX_MICROS else MAX_MICROS


def expiry_of(end: int, lateness: int) -> int:
    """Return the least watermark, in microseconds, at which a window that ends there has expired.

    At the maximum timestamp every window has expired.
    """
    expiry = end + lateness + 1
    return expiry if expiry < MAX_MICROS else MAX_MICROS
