"""What a grouping keeps of its windows, as plain data: whole, or what has changed (ABS, section 4.2).

A snapshot is a list of *records*, each of which says what is kept of one key in one window; or of
all windows of one key, where windows merge.  A later record of the same key and window
replaces an earlier one, so that a snapshot followed by its changes is a snapshot too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...windowing import BoundedWindow
from .trigger_decisions import Decision
from .triggered_windows import TriggeredWindows
from .window_state import WindowState

# The slots of a window's state that are plain data as they are.
_PLAIN = (
    "windows",
    "end",
    "expiry",
    "accumulator",
    "has_new",
    "stamp",
    "held",
    "panes",
    "on_time_panes",
    "was_on_time",
    "pair",
    "timestamp",
    "pane_windows",
    "pane",
    "replaced",
)


class WindowRecord(NamedTuple):
    """What is kept of a key in a window; nothing any more if `states` is empty.

    Attributes:
      window: None where windows merge: then it is of all windows of the key.
      states: the trigger's state, whether it is finished, when it is to be asked again in either
        domain, and the slots of the window's state.
    """

    key: Any
    window: BoundedWindow | None
    states: tuple[tuple[Any, ...], ...]


def snapshot(windows: TriggeredWindows) -> list[WindowRecord]:
    """Everything that there is; what changes from here on is the next `changes`."""
    windows.changed = {}
    return _records(windows, windows.all())


def changes(windows: TriggeredWindows) -> list[WindowRecord]:
    """What has changed since the last snapshot, or the last changes.

    Raises `RuntimeError` if there has been no snapshot.
    """
    if windows.changed is None:
        raise RuntimeError("there is no snapshot that anything could have changed since")
    changed, windows.changed = windows.changed, {}
    return _records(windows, changed)


def restore(windows: TriggeredWindows, records: Iterable[WindowRecord]) -> None:
    """Take over what the records say; of records of one key and window the last counts.

    What changes from here on is the next `changes`.
    """
    if windows.changed is None:
        windows.changed = {}
    last = {(record.key, record.window): record.states for record in records}
    for (key, _), states in last.items():
        for trigger_state, is_finished, event_time, processing_time, *slots in states:
            decision = Decision(False, trigger_state, is_finished, event_time, processing_time)
            plain = dict(zip(_PLAIN, slots, strict=True))
            state = WindowState(key, plain["windows"], plain["end"], plain["expiry"], plain["accumulator"], decision)
            for name, value in plain.items():
                setattr(state, name, value)
            windows.put(state)


def _records(windows: TriggeredWindows, states: Iterable[WindowState]) -> list[WindowRecord]:
    if windows.is_merging:
        keys = dict.fromkeys(state.key for state in states)
        return [WindowRecord(key, None, tuple(map(_row, windows.of_key(key)))) for key in keys]
    return [WindowRecord(state.key, state.windows[0], (_row(state),) if windows.has(state) else ()) for state in states]


def _row(state: WindowState) -> tuple[Any, ...]:
    decision = state.decision
    return (
        decision.state,
        decision.is_finished,
        decision.event_time,
        decision.processing_time,
        state.windows,
        state.end,
        state.expiry,
        state.accumulator,
        state.has_new,
        state.stamp,
        state.held,
        state.panes,
        state.on_time_panes,
        state.was_on_time,
        state.pair,
        state.timestamp,
        state.pane_windows,
        state.pane,
        state.replaced,
    )
