"""TableSource: the rows of a version of a table, as columns."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self, TypeVar

import attrs

from ...sdk.sources.bounded import BoundedSource
from ..connections.waiting import patiently

T = TypeVar("T")


class TableReading:
    """How the rows of a table are read: the base class of frozen classes of attrs.

    Attributes:
      label: of the transform.
      columns: the columns of the elements, in order.
    """

    label: str
    columns: tuple[str, ...]

    @property
    @abstractmethod
    def table(self) -> str:
        """The name or the address of the table."""

    @abstractmethod
    def explained(self, what: str) -> AbstractContextManager[None]:
        """Convert the client's errors, except of lost connections, into `SourceError`s.

        Args:
          what: such as "can't be read".
        """

    def reached(self, call: Callable[[], T], what: str = "can't be read") -> T:
        """Return the result of a call; wait for a store that doesn't answer.  Raises `SourceError`."""

        def explaining() -> T:
            with self.explained(what):
                return call()

        return patiently(self.label, repr(self.table), explaining)


class TableSource(BoundedSource[Any]):
    """The rows of a version of a table."""

    gives_columns = True

    def __init__(self, reading: Any) -> None:
        self.reading = reading

    def using(self, names: tuple[str, ...]) -> Self:
        """Return a source of elements of which these fields are used."""
        if not {*names} <= {*self.reading.columns}:
            return self
        twin = copy.copy(self)
        columns = tuple(name for name in self.reading.columns if name in names)
        twin.reading = attrs.evolve(self.reading, columns=columns)
        return twin
