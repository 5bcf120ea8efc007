"""Bundle: elements that are processed by a stage together.

An element is `(value, timestamp, windows, pane, sign)`.  A bundle has a *column* for each of the five.  A column is a
list with one entry for each element, or one entry that all elements share.  Most bundles are of one source split or one
fired window, so most columns are a single entry, which the generated stage function neither reads nor copies. Pushing
objects one by one through operators costs 8 to 14 times a loop over these lists
(docs/decisions/001-bundles-as-columns.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ...windowing.timestamp import MIN_MICROS
from ...windowing.windows import GLOBAL_WINDOW, BoundedWindow
from .defensive_copy import defensive_copies

# The windows of an element.  Interned by window functions: compare by equality.
Windows: TypeAlias = tuple[BoundedWindow, ...]

GLOBAL_WINDOWS: Windows = (GLOBAL_WINDOW,)

# Target size of a bundle.  Larger bundles gain nothing, smaller ones pay the set-up of the stage more often
# (docs/decisions/001-bundles-as-columns.md).
BUNDLE_SIZE = 16_384


class Shape(NamedTuple):
    """The columns of a bundle that vary from element to element.

    `one_window` says that the windows don't vary and are a single one.
    """

    timestamps: bool
    windows: bool
    panes: bool
    signs: bool
    one_window: bool


class Bundle:
    """Elements as columns.

    Attributes:
      values: a list, one value for each element.
      timestamps: event times in microseconds; a list, or one int for all.
      windows: a list of tuples of windows, or one tuple for all.
      panes: a list of `PaneInfo`, or one for all.
      signs: a list of +1 and -1 (a retraction), or one int for all.

    Columns must not be changed once the bundle was passed on.

    >>> bundle = Bundle(["a", "b"], timestamps=[0, 1_000_000])
    >>> len(bundle), bundle.signs
    (2, 1)
    """

    __slots__ = ("panes", "signs", "timestamps", "values", "windows")

    def __init__(
        self,
        values: list[Any],
        timestamps: list[int] | int = MIN_MICROS,
        windows: list[Windows] | Windows = GLOBAL_WINDOWS,
        panes: list[PaneInfo] | PaneInfo = PANE_INFO_UNKNOWN,
        signs: list[int] | int = 1,
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.windows = windows
        self.panes = panes
        self.signs = signs

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Bundle({len(self.values)} elements)"

    @property
    def shape(self) -> Shape:
        """The columns that vary.

        >>> Bundle(["a", "b"], timestamps=[0, 1_000_000]).shape
        Shape(timestamps=True, windows=False, panes=False, signs=False, one_window=True)
        """
        windows = self.windows
        return Shape(
            type(self.timestamps) is list,
            type(windows) is list,
            type(self.panes) is list,
            type(self.signs) is list,
            type(windows) is tuple and len(windows) == 1,
        )

    def part(self, start: int, stop: int) -> Bundle:
        """Return the elements from `start` up to `stop`.

        >>> Bundle(["a", "b", "c"], [1, 2, 3]).part(1, 3).timestamps
        [2, 3]
        """
        columns: Any = (self.timestamps, self.windows, self.panes, self.signs)
        return Bundle(
            self.values[start:stop], *(column[start:stop] if type(column) is list else column for column in columns)
        )

    def unshared(self) -> Bundle:
        """Return a bundle whose values share nothing that can be changed with those of this one."""
        values = defensive_copies(self.values)
        if values is self.values:
            return self
        return type(self)(values, self.timestamps, self.windows, self.panes, self.signs)

    def rows(self) -> Iterator[tuple[Any, int, Windows, PaneInfo, int]]:
        """Yield each element as `(value, micros, windows, pane, sign)`."""
        n = len(self.values)
        return zip(
            self.values,
            expanded(self.timestamps, n),
            expanded(self.windows, n),
            expanded(self.panes, n),
            expanded(self.signs, n),
            strict=True,
        )


def expanded(column: Any, n: int) -> list[Any]:
    """Return a column as a list of `n` entries."""
    return column if type(column) is list else [column] * n


def narrowed(column: list[Any]) -> Any:
    """Return the value of a column whose values are all equal; otherwise the column."""
    first = column[0]
    return first if column[-1] == first and column.count(first) == len(column) else column


def joined(bundles: Sequence[Bundle]) -> Bundle:
    """Return several bundles as one.

    >>> joined([Bundle(["a"], 5), Bundle(["b"], [6])]).timestamps
    [5, 6]
    """
    if len(bundles) == 1:
        return bundles[0]
    rest = (_joined([getattr(bundle, name) for bundle in bundles], bundles) for name in _COLUMNS)
    return Bundle(list(chain.from_iterable(bundle.values for bundle in bundles)), *rest)


_COLUMNS = ("timestamps", "windows", "panes", "signs")


def _joined(columns: list[Any], bundles: Sequence[Bundle]) -> Any:
    first = columns[0]
    if all(type(column) is not list and column == first for column in columns):
        return first
    return list(chain.from_iterable(expanded(column, len(b)) for column, b in zip(columns, bundles, strict=True)))
