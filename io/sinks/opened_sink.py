"""OpenedSink: the base class of sinks that keep something open between calls, such as a connection that publishes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from ...sdk.sink import Sink, SinkContext

T = TypeVar("T")


class OpenedSink(Sink[Any], Generic[T]):
    """A sink that opens its target for each transform that writes, once in a process.

    What is open isn't pickled.
    """

    def __init__(self) -> None:
        # By the labels of transforms.
        self._opened: dict[str, T] = {}

    @abstractmethod
    def open_for(self, label: str) -> T:
        """Return the target as the transform with this label writes to it.  Nothing is connected yet."""

    def opened(self, context: SinkContext) -> T:
        """Return the target as it was opened for the transform of a context."""
        if context.label not in self._opened:
            self._opened[context.label] = self.open_for(context.label)
        return self._opened[context.label]

    def close(self) -> None:
        """Close what is open: a connection may have a thread, which a run must not leave behind."""
        for opened in self._opened.values():
            if hasattr(opened, "close"):
                opened.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": {}}
