"""WindowFn: assignment and merging of windows (Dataflow Model, section 2.2).

A user's window function overrides `assign_windows`, and `merge_windows` if it merges.
Beam's names for them, `assign` and `merge`, may be overridden and called instead.

>>> from penstock.windowing import IntervalWindow, NonMergingWindowFn, Timestamp, WindowFn
>>> class FirstTenSeconds(NonMergingWindowFn):
...     def assign_windows(self, context):
...         return [IntervalWindow(0, 10)] if 0 <= context.timestamp < 10 else []
>>> FirstTenSeconds().assign(WindowFn.AssignContext(3))
[[0.0, 10.0)]
>>> FirstTenSeconds().assign_micros(11_000_000)
()
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from .timestamp import Timestamp, TimestampTypes
from .windows import BoundedWindow


class WindowFn:
    """Base class of window functions, which assign elements to windows and merge windows.

    Attributes:
      depends_only_on_timestamp: whether the windows depend on the element's timestamp only, so that a runner may assign
        many elements at once.
      merges_by_overlap: whether windows merge exactly if their intervals overlap, so that a runner may merge by one
        scan in order of time instead of calling `merge_windows`.

    >>> from penstock.windowing import IntervalWindow, WindowFn
    >>> class OnePerBlock(WindowFn):
    ...     def assign_windows(self, context):
    ...         start = context.timestamp - context.timestamp % 60
    ...         return [IntervalWindow(start, start + 60)]
    ...     def merge_windows(self, merge_context):
    ...         if len(merge_context.windows) > 1:
    ...             first, last = min(merge_context.windows), max(merge_context.windows)
    ...             merge_context.merge(merge_context.windows, IntervalWindow(first.start, last.end))
    >>> OnePerBlock().assign_micros(70_000_000)
    ([60.0, 120.0),)
    """

    depends_only_on_timestamp: bool = False
    merges_by_overlap: bool = False

    class AssignContext:
        """Argument of `assign_windows`: the element, its timestamp, and its former window."""

        def __init__(self, timestamp: TimestampTypes, element: Any = None, window: BoundedWindow | None = None) -> None:
            self.timestamp = Timestamp.of(timestamp)
            self.element = element
            self.window = window

    class MergeContext:
        """The windows of one key.  `merge_windows` calls `merge` for each group of windows that merge."""

        def __init__(self, windows: Iterable[BoundedWindow]) -> None:
            self.windows = list(windows)

        def merge(self, to_be_merged: Iterable[BoundedWindow], merge_result: BoundedWindow) -> None:
            """Replace windows by their merged window.  A runner overrides this."""
            raise NotImplementedError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _override_both(cls, "merge_windows", "merge")
        _override_both(cls, "assign_windows", "assign")
        # A class that overrides assignment must not inherit other methods of assignment, nor its base class's
        # declarations about assignment and merging.
        if overrides(cls, "assign_windows", "assign_micros"):
            if overrides(cls, "assign_windows", "depends_only_on_timestamp"):
                cls.depends_only_on_timestamp = False
            cls.assign_micros = WindowFn.assign_micros  # type: ignore[method-assign]
        elif overrides(cls, "assign_micros", "assign_windows"):
            by_micros = _by_micros(inspect.getattr_static(cls, "assign_micros"))
            cls.assign_windows = cls.assign = by_micros  # type: ignore[method-assign]
        if overrides(cls, "merge_windows", "merges_by_overlap"):
            cls.merges_by_overlap = False
        # Beam has a method of this name, which as an attribute would always be true.
        is_merging = inspect.getattr_static(cls, "is_merging")
        if inspect.isfunction(is_merging):
            cls.is_merging = property(is_merging)  # type: ignore[assignment, method-assign]

    def assign_windows(self, context: AssignContext) -> Iterable[BoundedWindow]:
        """Return the windows of an element.  An element without windows is dropped."""
        raise NotImplementedError(f"{type(self).__name__} must override assign_windows (or assign, Beam's name)")

    def assign(self, context: AssignContext) -> Iterable[BoundedWindow]:
        """Return the windows of an element.  Beam's name for `assign_windows`."""
        return self.assign_windows(context)

    def merge_windows(self, merge_context: MergeContext) -> None:
        """Call `merge_context.merge` for each group of windows that merge."""
        raise NotImplementedError(
            f"{type(self).__name__} must override merge_windows (or merge, Beam's name), "
            "or be a NonMergingWindowFn if its windows never merge"
        )

    def merge(self, merge_context: MergeContext) -> None:
        """Merge windows.  Beam's name for `merge_windows`."""
        self.merge_windows(merge_context)

    @property
    def is_merging(self) -> bool:
        """True if windows of one key may merge."""
        return True

    def get_transformed_output_time(self, window: BoundedWindow, input_timestamp: Timestamp) -> Timestamp:
        """Return the timestamp of an element of this window for OUTPUT_AT_EARLIEST_TRANSFORMED."""
        return input_timestamp

    def assign_micros(self, micros: int) -> tuple[BoundedWindow, ...]:
        """Return the windows of a timestamp in microseconds, independent of the element."""
        context = WindowFn.AssignContext(Timestamp.of_micros(micros))
        return checked_windows(self, self.assign_windows(context))

    def side_input_window(self, main_window: BoundedWindow) -> BoundedWindow:
        """Return the window of a side input, windowed by this function, for an element in `main_window`.

        Beam's rule: the window that contains the main window's last instant; of several, the one that ends first.
        Raises `ValueError` if this function merges, or has no window there.

        >>> from penstock.windowing import FixedWindows, IntervalWindow
        >>> FixedWindows(60).side_input_window(IntervalWindow(50, 70))
        [60.0, 120.0)
        """
        if self.is_merging:
            raise ValueError(f"{self!r} merges windows, which a side input can't do; use another window function")
        context = WindowFn.AssignContext(Timestamp.of_micros(main_window.max_micros), window=main_window)
        windows = checked_windows(self, self.assign_windows(context))
        if not windows:
            raise ValueError(f"{self!r} has no window for the end of the main input's window {main_window!r}")
        return windows[-1]


def overrides(cls: type, name: str, other: str) -> bool:
    """Return True if a class has an attribute from a class before the one that it has another attribute from.

    So a method that a subclass, or a class mixed in before the base class, overrides is told from what the base class
    declares about its own method.

    >>> class Fast:
    ...     speed = 9
    ...     def move(self): ...
    >>> class Lame(Fast):
    ...     def move(self): ...
    >>> overrides(Lame, "move", "speed"), overrides(Fast, "move", "speed")
    (True, False)
    """
    depths = [next(i for i, each in enumerate(cls.__mro__) if attribute in vars(each)) for attribute in (name, other)]
    return depths[0] < depths[1]


def _override_both(cls: type[WindowFn], ours: str, beams: str) -> None:
    if overrides(cls, ours, beams):
        setattr(cls, beams, inspect.getattr_static(cls, ours))
    elif overrides(cls, beams, ours):
        setattr(cls, ours, inspect.getattr_static(cls, beams))


# Of exactly this class, so that `super().assign(context)` doesn't call the subclass again.
def _by_micros(assign_micros: Callable[[Any, int], Iterable[BoundedWindow]]) -> Callable[..., list[BoundedWindow]]:
    def assign_windows(self: WindowFn, context: WindowFn.AssignContext) -> list[BoundedWindow]:
        """Return the windows of the context's timestamp."""
        return list(assign_micros(self, context.timestamp.micros))

    return assign_windows


class NonMergingWindowFn(WindowFn):
    """A window function whose windows never merge.

    >>> from penstock.windowing import IntervalWindow, NonMergingWindowFn
    >>> class ByElement(NonMergingWindowFn):
    ...     def assign_windows(self, context):
    ...         return [IntervalWindow(context.timestamp, context.timestamp + context.element["seconds"])]
    >>> ByElement().assign_windows(ByElement.AssignContext(10, {"seconds": 5}))
    [[10.0, 15.0)]
    """

    is_merging = False

    def merge_windows(self, merge_context: WindowFn.MergeContext) -> None:
        """Do nothing."""


def default_window_mapping_fn(target_window_fn: WindowFn) -> Any:
    """Return a window function's `side_input_window`.  Raises `ValueError` if it merges.

    >>> from penstock.windowing import GLOBAL_WINDOW, GlobalWindows, IntervalWindow, default_window_mapping_fn
    >>> default_window_mapping_fn(GlobalWindows())(IntervalWindow(0, 10))
    GlobalWindow
    """
    if target_window_fn.is_merging:
        raise ValueError(f"{target_window_fn!r} merges windows, which a side input can't do")
    return target_window_fn.side_input_window


def checked_windows(window_fn: WindowFn, windows: Any) -> tuple[BoundedWindow, ...]:
    """Return the result of a window function as a tuple.  Raises `TypeError` unless it is a list of windows.

    >>> from penstock.windowing import FixedWindows, checked_windows
    >>> checked_windows(FixedWindows(60), None)
    Traceback (most recent call last):
    TypeError: FixedWindows.assign_windows returned None, expected a list of windows; did you forget to return it?
    """
    # An interval is a tuple, but not one of windows.
    if isinstance(windows, (BoundedWindow, str, bytes)) or not isinstance(windows, Iterable):
        raise _not_windows(window_fn, windows)
    checked = tuple(windows)
    for window in checked:
        if not isinstance(window, BoundedWindow):
            raise _not_windows(window_fn, window, "a list that holds ")
    return checked


def _not_windows(window_fn: WindowFn, got: Any, where: str = "") -> TypeError:
    hint = ""
    if got is None and not where:
        hint = "; did you forget to return it?"
    elif isinstance(got, BoundedWindow):
        hint = "; did you forget the brackets around it?"
    elif isinstance(got, tuple):
        hint = "; did you mean an IntervalWindow?"
    name = type(window_fn).__name__
    return TypeError(f"{name}.assign_windows returned {where}{got!r}, expected a list of windows{hint}")
