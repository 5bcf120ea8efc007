"""ObservableMixin: objects that call functions with values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ObservableMixin:
    """Mixin of classes that call registered functions.

    >>> watched = ObservableMixin()
    >>> watched.register_observer(print)
    >>> watched.notify_observers("changed")
    changed
    """

    def __init__(self) -> None:
        self.observers: list[Callable[..., Any]] = []

    def register_observer(self, callback: Callable[..., Any]) -> None:
        """Call a function with each value from now on."""
        self.observers.append(callback)

    def notify_observers(self, value: Any, **kwargs: Any) -> None:
        """Call the functions with a value, and these arguments by name."""
        for observer in self.observers:
            observer(value, **kwargs)
