"""Buffers the outputs of a step whose columns vary, and emits them as bundles by tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....sdk import graph
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, Windows, narrowed
from ....sdk.elements.defensive_copy import defensive_copy
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
        self._by_tag: dict[graph.Tag, _Rows] = {}

    def at(
        self, windows: Windows, pane: PaneInfo, sign: int, tag: graph.Tag = None
    ) -> tuple[list[Any], list[int]] | None:
        """Return the values and timestamps of a tag, to which outputs with these windows, pane and sign are appended.

        They are valid until the next call, or until a flush, for which the caller looks after `BUNDLE_SIZE` outputs.
        Returns None if outputs with this tag are dropped.

        Raises `PipelineError` for a tag that was not declared.
        """
        rows = self._by_tag.get(tag)
        if rows is None:
            if tag not in self._tags:
                if self._any_tag:
                    return None
                declared = [t for t in self._tags if t is not None]
                raise PipelineError(
                    f"got an output tagged {tag!r}, but the tags declared by with_outputs are {declared}"
                )
            rows = self._by_tag[tag] = _Rows(windows, pane, sign)
        elif windows is not rows.last[0] or pane is not rows.last[1] or sign != rows.last[2]:
            rows.pad()
            rows.last = windows, pane, sign
        return rows.values, rows.timestamps

    def add(self, tag: graph.Tag, value: Any, micros: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        """Add an output.

        Raises `PipelineError` for a tag that was not declared.
        """
        columns = self.at(windows, pane, sign, tag)
        if columns is not None:
            columns[0].append(defensive_copy(value))
            columns[1].append(micros)
            if len(columns[0]) >= BUNDLE_SIZE:
                self.flush()

    def flush(self) -> None:
        """Emit everything."""
        taken, self._by_tag = self._by_tag, {}
        for tag, rows in taken.items():
            if rows.values:
                self._emit(tag, rows.bundle())


class _Rows:
    """The outputs of one tag.

    Attributes:
      values, timestamps: a value for each output.
      windows, panes, signs: values for the first outputs.
      last: windows, pane and sign of all further outputs.
    """

    __slots__ = ("last", "panes", "signs", "timestamps", "values", "windows")

    def __init__(self, windows: Windows, pane: PaneInfo, sign: int) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.windows: list[Windows] = []
        self.panes: list[PaneInfo] = []
        self.signs: list[int] = []
        self.last = windows, pane, sign

    def pad(self) -> None:
        """Complete the columns."""
        number = len(self.values) - len(self.windows)
        windows, pane, sign = self.last
        self.windows += [windows] * number
        self.panes += [pane] * number
        self.signs += [sign] * number

    def bundle(self) -> Bundle:
        """Return the outputs as a bundle."""
        timestamps = narrowed(self.timestamps)
        if not self.windows:
            return Bundle(self.values, timestamps, *self.last)
        self.pad()
        return Bundle(self.values, timestamps, narrowed(self.windows), narrowed(self.panes), narrowed(self.signs))
