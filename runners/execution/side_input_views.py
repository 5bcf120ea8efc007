"""Side inputs' contents, by window, and the views of them.

A view is kept up by signs: a retracted element is taken out again.  Of panes that
accumulate, a singleton's view is the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...sdk import graph
from ...sdk.bundle import Bundle
from ...sdk.errors import PenstockError
from ...sdk.side_inputs import SingletonView
from ...triggers import AccumulationMode, PaneInfo
from ...windowing import GLOBAL_WINDOW, BoundedWindow
from .equal_values import find_alike
from .user_code import shortened

ByWindow = dict[BoundedWindow, list[Any]]


class SideInputViews:
    """What the side inputs of a worker's stages hold.

    A view is built once for each window that somebody looks at, and again when more has come.
    """

    def __init__(self) -> None:
        self._values: dict[int, ByWindow] = {}
        # By side input and window, the highest pane index so far and that pane's values.
        self._last_panes: dict[int, dict[BoundedWindow, tuple[int, list[Any]]]] = {}
        self._views: dict[int, dict[tuple[int, BoundedWindow], tuple[Any, Any]]] = {}

    def add(self, pcollection: int, bundle: Bundle) -> None:
        """Take in elements of a side input."""
        by_window = self._values.setdefault(pcollection, {})
        self._views.pop(pcollection, None)
        if type(bundle.windows) is tuple and bundle.signs == 1 and isinstance(bundle.panes, PaneInfo):
            for window in bundle.windows:
                by_window.setdefault(window, []).extend(bundle.values)
                self._add_pane(pcollection, window, bundle.panes.index, bundle.values)
            return
        for value, _, windows, pane, sign in bundle.rows():
            for window in windows:
                values = by_window.setdefault(window, [])
                if sign > 0:
                    values.append(value)
                    self._add_pane(pcollection, window, pane.index, [value])
                else:
                    _take_out(values, value)

    def _add_pane(self, pcollection: int, window: BoundedWindow, index: int, values: list[Any]) -> None:
        panes = self._last_panes.setdefault(pcollection, {})
        last = panes.get(window)
        if last is None or index > last[0]:
            panes[window] = (index, list(values))
        elif index == last[0]:
            last[1].extend(values)

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

    def has_any(self, pcollection: int, window: BoundedWindow) -> bool:
        """Whether anything has come for a window."""
        return window in self._values.get(pcollection, {})

    def _view(self, side_input: graph.SideInput, window: BoundedWindow) -> Any:
        views = self._views.setdefault(side_input.pcollection, {})
        # By identity, for a default may have no hash; kept, so that nothing else gets the same.
        key = (id(side_input.view), window)
        if key not in views:
            views[key] = (side_input.view, side_input.view.of(self._contents(side_input, window)))
        return views[key][1]

    def _contents(self, side_input: graph.SideInput, window: BoundedWindow) -> list[Any]:
        pcollection = side_input.pcollection
        accumulates = side_input.windowing.accumulation_mode is AccumulationMode.ACCUMULATING
        if accumulates and isinstance(side_input.view, SingletonView):
            last = self._last_panes.get(pcollection, {}).get(window)
            return [] if last is None else last[1]
        return list(self._values.get(pcollection, {}).get(window, ()))

    def values(self, pcollection: int) -> ByWindow:
        """Everything that was added of a side input, by window."""
        return self._values.get(pcollection, {})

    def snapshot(self, pcollection: int) -> Any:
        """Everything that is known of a side input, as plain data."""
        return self._values.get(pcollection, {}), self._last_panes.get(pcollection, {})

    def restore(self, pcollection: int, snapshot: Any) -> None:
        """Take over what was known of a side input."""
        self._values[pcollection], self._last_panes[pcollection] = snapshot
        self._views.pop(pcollection, None)

    def put(self, pcollection: int, by_window: ByWindow) -> None:
        """Set the whole contents of a side input."""
        self._values[pcollection] = by_window
        self._last_panes[pcollection] = {window: (0, values) for window, values in by_window.items()}


def _take_out(values: list[Any], value: Any) -> None:
    try:
        values.remove(value)
        return
    except ValueError:
        # Or an array, which can't be compared as a whole.
        place = find_alike(value, values)
    if place is None:
        raise PenstockError(f"a side input was to take back {shortened(value)}, which never came")
    del values[place]
