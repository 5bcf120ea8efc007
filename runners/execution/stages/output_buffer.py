"""Buffers the outputs of a step whose columns vary, and emits them as bundles by tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....sdk import graph
from ....sdk.bundle import BUNDLE_SIZE, Bundle, Windows
from ....sdk.errors import PipelineError
from ....triggers import PaneInfo


class OutputRows:
    """The outputs of a step, until they are flushed.

    Args:
      tags: its declared outputs.
      emit: called with the tag and the elements of each bundle.
      any_tag: True if an output with another tag is dropped, False if it is an error.

    >>> sent = []
    >>> rows = OutputRows((None,), lambda tag, bundle: sent.append((tag, list(bundle.rows()))))
    >>> rows.add(None, "a", 5, ("window",), "pane", 1)
    >>> rows.flush()
    >>> sent
    [(None, [('a', 5, ('window',), 'pane', 1)])]
    """

    def __init__(
        self, tags: tuple[graph.Tag, ...], emit: Callable[[graph.Tag, Bundle], None], any_tag: bool = False
    ) -> None:
        self._tags = tags
        self._emit = emit
        self._any_tag = any_tag
        self._by_tag: dict[graph.Tag, tuple[list[Any], list[int], list[Windows], list[PaneInfo], list[int]]] = {}

    def add(self, tag: graph.Tag, value: Any, micros: int, windows: Windows, pane: Any, sign: int) -> None:
        """Add an output.

        Raises `PipelineError` for a tag that was not declared.
        """
        columns = self._by_tag.get(tag)
        if columns is None:
            if tag not in self._tags:
                if self._any_tag:
                    return
                declared = [t for t in self._tags if t is not None]
                raise PipelineError(
                    f"got an output tagged {tag!r}, but the tags declared by with_outputs are {declared}"
                )
            columns = self._by_tag[tag] = ([], [], [], [], [])
        columns[0].append(value)
        columns[1].append(micros)
        columns[2].append(windows)
        columns[3].append(pane)
        columns[4].append(sign)
        if len(columns[0]) >= BUNDLE_SIZE:
            self.flush()

    def flush(self) -> None:
        """Emit everything."""
        if not self._by_tag:
            return
        taken, self._by_tag = self._by_tag, {}
        for tag, (values, micros, windows, panes, signs) in taken.items():
            self._emit(tag, Bundle(values, narrowed(micros), narrowed(windows), narrowed(panes), narrowed(signs)))


def narrowed(column: list[Any]) -> Any:
    """Return the value of a column whose values are all equal; otherwise the column."""
    first = column[0]
    return first if column.count(first) == len(column) else column
