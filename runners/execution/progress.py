"""Progress: the number of elements that each step has read and written, shown while a pipeline runs.

A thread reads the counts four times a second, which doesn't slow down the loops that count.  It shows nothing in the
first half second, so that short runs neither import rich nor flicker.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...sdk.errors import missing_extra
from ...sdk.options import PipelineOptions, ProgressOptions
from .counters import Counts, loads_of
from .plan.fusion import Plan, Stage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_BEFORE_THE_FIRST = 0.5
_BETWEEN = 0.25
# Two tables on one terminal would overwrite each other: one pipeline is shown at a time.
_terminal = threading.Lock()

# The columns of the terminal for two numbers of up to thirteen digits, and the space between.
_FOR_THE_NUMBERS, _FOR_THE_TIME, _FOR_THE_LOAD = 36, 10, 9


class Progress(AbstractContextManager["Progress"]):
    """A table on the terminal while the `with` block runs; its last state stays there.

    Args:
      counts: the counts to show, which may change meanwhile.
      labels: steps in the order to show them in.  Steps without counts are left out.
      wanted: True and False decide; with None it depends on whether standard error is a terminal and rich is installed.
      console: the console to use; standard error if None.
      refresh: called before the counts are read; returns text to show with them.

    Raises `MissingExtraError` if it is wanted and rich is not installed.

    >>> counts = Counts()
    >>> with Progress(counts, ["Read"], wanted=False):
    ...     counts.of("Read").read += 1
    """

    def __init__(
        self,
        counts: Counts,
        labels: Sequence[str] = (),
        wanted: bool | None = None,
        console: Console | None = None,
        refresh: Callable[[], str] = str,
    ) -> None:
        self._refresh = refresh
        self._counts = counts
        self._labels = labels
        self._console = console
        self._is_over = threading.Event()
        self._began = time.monotonic()
        self._thread: threading.Thread | None = None
        self._wait = 0.0 if wanted else _BEFORE_THE_FIRST
        if is_shown(wanted):
            self._thread = threading.Thread(target=self._show, name="penstock-progress", daemon=True)

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._is_over.wait(self._wait) and self._wait:
            return
        while not _terminal.acquire(timeout=_BETWEEN):
            if self._is_over.is_set():
                return
        try:
            self._show_table()
        finally:
            _terminal.release()

    def _show_table(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = self._console or Console(stderr=True)
        # Output of the pipeline appears above the table, unless it is redirected.
        redirect = sys.stdout.isatty()
        with Live(console=console, auto_refresh=False, redirect_stdout=redirect, redirect_stderr=True) as live:
            while not self._is_over.wait(_BETWEEN):
                live.update(self.table(console.width), refresh=True)
            live.update(self.table(console.width))

    def table(self, width: int) -> Table:
        """Return a table of the present counts, for a terminal of this width."""
        note = self._refresh()
        from rich import box
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        shown.add_column(f"{time.monotonic() - self._began:.0f} s{note and ', '}{note}", no_wrap=True)
        shown.add_column("read", justify="right", no_wrap=True)
        shown.add_column("written", justify="right", no_wrap=True)
        has_time = bool(self._counts.seconds)
        if has_time:
            shown.add_column("time", justify="right", no_wrap=True)
        loads = self._loads()
        if loads:
            shown.add_column("busy", justify="right", no_wrap=True)
        steps = dict(self._counts.steps)
        reserved = _FOR_THE_NUMBERS + has_time * _FOR_THE_TIME + bool(loads) * _FOR_THE_LOAD
        for label in dict.fromkeys([*self._labels, *steps]):
            if count := steps.get(label):
                name = Text(label)
                name.truncate(max(width - reserved, 20), overflow="ellipsis")
                # The elements of a stage that ends in a fold are counted as the grouping's.
                seconds = sum(self._counts.seconds.get(each, 0.0) for each in label.split(" + "))
                spent = [f"{seconds:,.1f} s" if seconds else ""] if has_time else []
                spent += [loads.get(label, "")] if loads else []
                shown.add_row(name, f"{count.read:,}", f"{count.written:,}" if count.written else "", *spent)
        return shown

    def _loads(self) -> dict[str, str]:
        """Return the load of each stage's subtasks, so far, by the first label of the stage."""
        shares: dict[str, list[float]] = {}
        for load in loads_of(self._counts, time.monotonic() - self._began):
            shares.setdefault(load.stage.split(" → ")[0], []).append(load.busy)
        return {label: range_of(own) for label, own in shares.items()}


def range_of(shares: Sequence[float]) -> str:
    """Return the least and the greatest of some shares, as text.

    >>> range_of([0.25, 0.5]), range_of([0.5]), range_of([])
    ('25–50%', '50%', '')
    """
    if not shares:
        return ""
    least, most = f"{min(shares) * 100:.0f}", f"{max(shares) * 100:.0f}"
    return f"{most}%" if least == most else f"{least}–{most}%"


def progress_of(counts: Counts, plan: Plan, options: PipelineOptions, **arguments: Any) -> Progress:
    """Return the progress of a plan that runs with these options."""
    labels = [step.label if isinstance(step, Stage) else step.transform.label for step in plan.steps]
    return Progress(counts, labels, options.view_as(ProgressOptions).progress, **arguments)


def is_shown(wanted: bool | None) -> bool:
    """Return True if progress is to be shown.

    Raises `MissingExtraError` if it is wanted and rich is not installed.

    >>> is_shown(False)
    False
    """
    if wanted is None:
        has_display = (sys.stderr is not None and sys.stderr.isatty()) or _has_widgets()
        return has_display and find_spec("rich") is not None
    if wanted and find_spec("rich") is None:
        raise missing_extra("rich", "progress", "--progress")
    return wanted


def _has_widgets() -> bool:
    """Return whether the program is a notebook with widgets, in which rich displays a table that changes."""
    # Of a kernel; a terminal of IPython has another shell.
    if "ipykernel.zmqshell" not in sys.modules:
        return False
    return find_spec("ipywidgets") is not None
