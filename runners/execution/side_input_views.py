"""Side inputs' contents, by window, and the views of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...windowing import GLOBAL_WINDOW, BoundedWindow


class SideInputViews:
    """What the side inputs of a worker's stages hold.

    A view is built once for each window that somebody looks at.
    """

    def __init__(self) -> None:
        self._values: dict[int, dict[BoundedWindow, list[Any]]] = {}
        self._views: dict[tuple[Any, ...], Any] = {}

    def add(self, pcollection: int, bundle: Bundle) -> None:
        """Take in elements of a side input."""
        by_window = self._values.setdefault(pcollection, {})
        windows = bundle.windows
        if type(windows) is tuple:
            for window in windows:
                by_window.setdefault(window, []).extend(bundle.values)
        else:
            for value, own in zip(bundle.values, windows, strict=True):
                for window in own:
                    by_window.setdefault(window, []).append(value)

    def whole(self, side_input: graph.SideInput) -> Any:
        """The view of a side input in the global window."""
        return self._view(side_input, GLOBAL_WINDOW)

    def by_main_window(self, side_input: graph.SideInput) -> Callable[[BoundedWindow], Any]:
        """A function from the main input's window to the view that it sees."""
        mapping = side_input.windowing.window_fn.side_input_window
        seen: dict[BoundedWindow, Any] = {}

        def view(main_window: BoundedWindow) -> Any:
            try:
                return seen[main_window]
            except KeyError:
                found = seen[main_window] = self._view(side_input, mapping(main_window))
                return found

        return view

    def _view(self, side_input: graph.SideInput, window: BoundedWindow) -> Any:
        key = (side_input.pcollection, side_input.view.__class__, window)
        cached = self._views.get(key)
        if cached is None or cached[0] is not side_input.view:
            values = self._values.get(side_input.pcollection, {}).get(window, [])
            cached = self._views[key] = (side_input.view, side_input.view.of(values))
        return cached[1]

    def values(self, pcollection: int) -> dict[BoundedWindow, list[Any]]:
        """Everything that was added of a side input, by window."""
        return self._values.get(pcollection, {})

    def put(self, pcollection: int, by_window: dict[BoundedWindow, list[Any]]) -> None:
        """Set the whole contents of a side input."""
        self._values[pcollection] = by_window
