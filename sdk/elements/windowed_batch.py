"""Batches of values with one timestamp, windows and pane, for code that calls Beam's batched functions itself.

>>> from penstock.windowing import GlobalWindow
>>> batch = HomogeneousWindowedBatch.of(["a", "b"], 5, (GlobalWindow(),))
>>> [windowed.value for windowed in batch.as_windowed_values(iter)]
['a', 'b']
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from ...frozen import frozen
from ...triggers.pane import PANE_INFO_UNKNOWN, PaneInfo
from ...windowing.timestamp import Timestamp
from ...windowing.windows import BoundedWindow
from .element_wrappers import WindowedValue


class WindowedBatch(ABC):
    """Base class of batches of windowed values."""

    @abstractmethod
    def with_values(self, new_values: Any) -> WindowedBatch:
        """Return other values with the same timestamp, windows and pane."""

    @abstractmethod
    def as_windowed_values(self, explode_fn: Callable[[Any], Iterable[Any]]) -> Iterator[WindowedValue]:
        """Yield the values, which `explode_fn` returns of the batch."""

    @staticmethod
    def from_windowed_values(
        windowed_values: Iterable[WindowedValue], *, produce_fn: Callable[[list[Any]], Any]
    ) -> Iterator[HomogeneousWindowedBatch]:
        """Yield a batch, made by `produce_fn`, for each timestamp, windows and pane, in the order of the first ones."""
        groups: dict[Any, list[Any]] = {}
        for windowed in windowed_values:
            groups.setdefault((windowed.timestamp, windowed.windows, windowed.pane_info), []).append(windowed.value)
        for (timestamp, windows, pane_info), values in groups.items():
            yield HomogeneousWindowedBatch.of(produce_fn(values), timestamp, windows, pane_info)


@frozen
class HomogeneousWindowedBatch(WindowedBatch):
    """A batch whose values have the same timestamp, windows and pane."""

    values: Any
    timestamp: Timestamp
    windows: tuple[BoundedWindow, ...]
    pane_info: PaneInfo = PANE_INFO_UNKNOWN

    @staticmethod
    def of(
        values: Any, timestamp: Any, windows: Iterable[BoundedWindow], pane_info: PaneInfo = PANE_INFO_UNKNOWN
    ) -> HomogeneousWindowedBatch:
        """Return a batch."""
        return HomogeneousWindowedBatch(values, Timestamp.of(timestamp), tuple(windows), pane_info)

    def with_values(self, new_values: Any) -> HomogeneousWindowedBatch:
        return attrs.evolve(self, values=new_values)

    def as_windowed_values(self, explode_fn: Callable[[Any], Iterable[Any]]) -> Iterator[WindowedValue]:
        for value in explode_fn(self.values):
            yield WindowedValue(value, self.timestamp, self.windows, self.pane_info)
