"""The views of side inputs, by window.

Signs keep a view up to date: a retracted element is removed.  Without retractions the latest pane replaces those before
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....sdk import graph
from ....sdk.elements.bundle import Bundle
from ....sdk.side_input_views import PanesSeen
from ....triggers import PaneInfo
from ....windowing import GLOBAL_WINDOW, BoundedWindow
from .side_inputs import SideInputContents, ViewChange


class SideInputViews:
    """The views of the side inputs of a worker's stages.

    A view is built for each window when it is first read, and again after the contents have changed.
    """

    def __init__(self) -> None:
        self._contents: dict[int, SideInputContents] = {}
        self._views: dict[int, dict[tuple[int, BoundedWindow], tuple[Any, Any]]] = {}

    def again(self) -> SideInputViews:
        """Return views of the same contents for another task, whose side inputs are other objects."""
        views = SideInputViews()
        views._contents = self._contents
        return views

    def add(self, pcollection: int, bundle: Bundle) -> None:
        """Add elements of a side input."""
        contents = self.contents(pcollection)
        self._views.pop(pcollection, None)
        if type(bundle.windows) is tuple and bundle.signs == 1 and isinstance(bundle.panes, PaneInfo):
            for window in bundle.windows:
                contents.add(window, bundle.panes.index, bundle.values)
            return
        for value, _, windows, pane, sign in bundle.rows():
            for window in windows:
                if sign > 0:
                    contents.add(window, pane.index, [value])
                else:
                    contents.retract(window, value)

    def contents(self, pcollection: int) -> SideInputContents:
        """Return the contents of a side input."""
        try:
            return self._contents[pcollection]
        except KeyError:
            contents = self._contents[pcollection] = SideInputContents()
            return contents

    def whole(self, side_input: graph.SideInput) -> Any:
        """Return the view of a side input in the global window."""
        return self._view(side_input, GLOBAL_WINDOW)

    def by_main_window(self, side_input: graph.SideInput) -> Callable[[BoundedWindow], Any]:
        """Return a function from the main input's window to its view."""
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
        """Return True if a window has received any element."""
        return window in self.contents(pcollection)

    def _view(self, side_input: graph.SideInput, window: BoundedWindow) -> Any:
        views = self._views.setdefault(side_input.pcollection, {})
        # The key is the view's identity, because a default may have no hash.  The view is kept, so that its id isn't
        # reused.
        key = (id(side_input.view), window)
        if key not in views:
            views[key] = (side_input.view, side_input.view.of(self._seen(side_input, window)))
        return views[key][1]

    def _seen(self, side_input: graph.SideInput, window: BoundedWindow) -> list[Any]:
        contents = self.contents(side_input.pcollection)
        if side_input.panes is PanesSeen.ALL:
            return list(contents.of(window))
        return list(contents.of_latest_pane(window, side_input.panes is PanesSeen.LATEST_BY_KEY))

    def keep_seen_panes(self, side_inputs: Iterable[graph.SideInput]) -> None:
        """Keep only the panes that these side inputs show; to be called before anything is added."""
        seen: dict[int, set[PanesSeen]] = {}
        for side_input in side_inputs:
            seen.setdefault(side_input.pcollection, set()).add(side_input.panes)
        for pcollection, own in seen.items():
            # The first one shows all that those behind it show.
            order = (PanesSeen.ALL, PanesSeen.LATEST_BY_KEY, PanesSeen.LATEST)
            self.contents(pcollection).seen = next(panes for panes in order if panes in own)

    def free(self, pcollection: int, through: int) -> None:
        """Free the windows of a side input that end at a watermark, in microseconds, or before."""
        contents = self._contents.get(pcollection)
        gone = set() if contents is None else set(contents.free(through))
        views = self._views.get(pcollection)
        if gone and views:
            self._views[pcollection] = {key: view for key, view in views.items() if key[1] not in gone}

    def restore(self, pcollection: int, changes: Iterable[ViewChange]) -> None:
        """Restore the contents of a side input from a snapshot and its changes."""
        self.contents(pcollection).restore(changes)
        self._views.pop(pcollection, None)
