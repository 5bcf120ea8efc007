"""BoundedSource: the interface between a bounded source and a runner.

A source describes its *splits* in the process that builds the pipeline. The runner reads each split in this process, in
a worker, or in Spark's executors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic

from ..coders.digest import digest_of
from ..elements.bundle import BUNDLE_SIZE, Bundle
from ..elements.defensive_copy import IMMUTABLE, defensive_copies, defensive_copy
from ..type_variables import T
from .table_values import TableValues


class BoundedSource(ABC, Generic[T]):
    """A finite input that can be read in parallel.

    A subclass defines `split` and `read`.  One that reads lists of values defines `read_bundles` instead of `read`,
    which is much faster.  Elements are values, or `TimestampedValue`s if they have event times.

    >>> class Squares(BoundedSource[int]):
    ...     def split(self, desired_splits):
    ...         return [range(0, 5), range(5, 10)]
    ...     def read(self, split):
    ...         return (n * n for n in split)
    >>> [len(bundle) for split in Squares().split(2) for bundle in Squares().read_bundles(split)]
    [5, 5]

    Attributes:
      gives_columns: whether `read_bundles` gives `ColumnBundle`s, which a drawing of the pipeline shows.
    """

    gives_columns: bool = False

    def estimate_size(self) -> int | None:
        """Return the size of the input in bytes, if it is known without reading it."""
        return None

    @abstractmethod
    def split(self, desired_splits: int) -> Sequence[Any]:
        """Return about `desired_splits` parts that can be read independently.

        Splits are picklable, and opaque to the runner.  Raises `SourceError`, naming the file or address, if the input
        is missing or unreadable.
        """

    def identity(self) -> Mapping[str, Any]:
        """Return the settings that splits depend on, by name, as `UnboundedSource.identity` does."""
        return {}

    def check_split(self, split: Any) -> None:
        """Raise `SourceError` if the input of a split has changed since an earlier run."""

    def read(self, split: Any) -> Iterator[T]:
        """Yield the elements of one split."""
        raise TypeError(f"{type(self).__name__} defines neither read nor read_bundles")

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        """Yield the elements of one split, in bundles of about `BUNDLE_SIZE`.

        The values are plain values: their timestamps are in the bundle's column (`MIN_TIMESTAMP` for an input without
        event times).
        """
        elements = iter(self.read(split))
        # A reader may yield an object again after it has changed it.
        while chunk := [e if type(e) in IMMUTABLE else defensive_copy(e) for e in islice(elements, BUNDLE_SIZE)]:
            yield bundle_of(chunk)


class ValuesSource(BoundedSource[T]):
    """The values of a list.  A split is a part of the list.

    Args:
      are_immutable: True if no value can be changed, so that all readers may have the same objects.
    """

    def __init__(self, values: Sequence[T], are_immutable: bool = False) -> None:
        self.values = values
        self._are_immutable = are_immutable
        self.gives_columns = isinstance(values, TableValues)
        self._digest: str | None = None

    def identity(self) -> Mapping[str, Any]:
        if self._digest is None:
            self._digest = self.values.digest() if isinstance(self.values, TableValues) else digest_of(self.values)
        return {"values": self._digest}

    def split(self, desired_splits: int) -> Sequence[Any]:
        n = len(self.values)
        parts = max(1, min(desired_splits, n))
        if parts == 1:
            return [self.values]
        return [self.values[i * n // parts : (i + 1) * n // parts] for i in range(parts)]

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        if isinstance(split, TableValues):
            yield from split.bundles()
            return
        for start in range(0, len(split), BUNDLE_SIZE):
            part = split[start : start + BUNDLE_SIZE]
            part = part if type(part) is list else list(part)
            yield bundle_of(part if self._are_immutable else defensive_copies(part))

    def __reduce__(self) -> tuple[Any, ...]:
        # The splits contain the values.
        return (ValuesSource, ((),))


def bundle_of(elements: list[Any]) -> Bundle:
    """Return a bundle of plain values, `TimestampedValue`s and `WindowedValue`s."""
    from ..elements.element_wrappers import SPECIAL_TYPES, unwrapped

    if SPECIAL_TYPES.isdisjoint(set(map(type, elements))):
        return Bundle(elements)
    values, timestamps, windows, panes = [], [], [], []
    for element in elements:
        value, timestamp, element_windows, pane = unwrapped(element)
        values.append(value)
        timestamps.append(timestamp)
        windows.append(element_windows)
        panes.append(pane)
    return Bundle(values, timestamps, windows, panes)
