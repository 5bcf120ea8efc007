"""Exports of entries: lines of JSON, lines of text, and Parquet.  All of them hold few entries at a time.

The columns are described in docs/state.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from ....io.optional_package import optional_package
from ....windowing import IntervalWindow
from .entries import TIMER, WINDOW, StateEntry
from .json_values import as_line, json_value, text_of, time_of, window_of

# The entries of a row group of Parquet.
_ROW_GROUP = 10_000


def record_of(entry: StateEntry) -> dict[str, Any]:
    """Return an entry as data of JSON."""
    record: dict[str, Any] = {"step": entry.step, "kind": entry.kind}
    if entry.kind != WINDOW:
        record["name"] = entry.name
    record |= {"key": json_value(entry.key), "window": window_of(entry.window)}
    if entry.kind == TIMER:
        return record | _of_timer(entry)
    record["value"] = json_value(entry.value)
    return record | _of_window(entry)


def _of_timer(entry: StateEntry) -> dict[str, Any]:
    timer = entry.timer
    assert timer is not None
    assert timer.fire is not None
    return {
        "tag": timer.tag,
        "domain": str(timer.domain),
        "fires": time_of(timer.fire),
        "output": time_of(timer.output),
    }


def _of_window(entry: StateEntry) -> dict[str, Any]:
    state = entry.window_state
    if state is None:
        return {}
    decision = state.decision
    return {
        "panes": state.panes,
        "has_new": state.has_new,
        "expires": time_of(state.expiry),
        "due_event_time": None if decision.event_time is None else time_of(decision.event_time),
        "due_processing_time": None if decision.processing_time is None else time_of(decision.processing_time),
        # The panes that would be retracted.
        "standing": [json_value(pair[1]) for pair, *_ in state.current_panes],
    }


def json_lines(entries: Iterable[StateEntry]) -> Iterator[str]:
    """Yield each entry as a line of JSON, without the newline."""
    for entry in entries:
        yield as_line(record_of(entry))


def text_lines(entries: Iterable[StateEntry]) -> Iterator[str]:
    """Yield each entry as a line for a terminal."""
    for entry in entries:
        window = shown_window(entry.window)
        head = f"{entry.kind} {entry.name}".rstrip()
        if entry.timer is not None:
            timer = entry.timer
            assert timer.fire is not None
            tag = f" tag {timer.tag!r}" if timer.tag else ""
            value = f"{timer.domain} {time_of(timer.fire)}{tag}"
        else:
            value = text_of(entry.value)
        yield f"{head}\t{text_of(entry.key)}\t{window}\t{value}"


def shown_window(window: Any) -> str:
    """Return a window as text.

    >>> shown_window(IntervalWindow(0, 60))
    '[1970-01-01T00:00:00Z, 1970-01-01T00:01:00Z)'
    """
    if isinstance(window, IntervalWindow):
        return f"[{time_of(window.start_micros)}, {time_of(window.end_micros)})"
    found = window_of(window)
    return "global" if found is None else as_line(found)


def write_parquet(entries: Iterable[StateEntry], path: Path) -> int:
    """Write entries to a Parquet file, in row groups of 10,000, and return their number.

    The file has its name once it is complete.  Raises `MissingExtraError` without the extra `parquet`.
    """
    pa = optional_package("pyarrow", "parquet", "--format=parquet")
    parquet = optional_package("pyarrow.parquet", "parquet", "--format=parquet")
    time, text = pa.timestamp("us", tz="UTC"), pa.string()
    fields = [("step", text), ("kind", text), ("name", text), ("key", text), ("window", text)]
    fields += [("window_start", time), ("window_end", time), ("value", text), ("panes", pa.int64())]
    fields += [("fires", time), ("output", time), ("domain", text), ("tag", text)]
    schema = pa.schema(fields)
    unfinished = path.with_name(f"{path.name}.unfinished")
    number = 0
    try:
        with parquet.ParquetWriter(unfinished, schema) as writer:
            remaining = iter(entries)
            while portion := list(islice(remaining, _ROW_GROUP)):
                writer.write_batch(pa.RecordBatch.from_pylist([_row_of(entry) for entry in portion], schema=schema))
                number += len(portion)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return number


def _row_of(entry: StateEntry) -> dict[str, Any]:
    window, timer, state = entry.window, entry.timer, entry.window_state
    is_interval = isinstance(window, IntervalWindow)
    return {
        "step": entry.step,
        "kind": entry.kind,
        "name": entry.name,
        "key": text_of(entry.key),
        "window": None if is_interval or window_of(window) is None else as_line(window_of(window)),
        "window_start": window.start_micros if is_interval else None,
        "window_end": window.end_micros if is_interval else None,
        "value": None if timer is not None else text_of(entry.value),
        "panes": None if state is None else state.panes,
        "fires": None if timer is None else timer.fire,
        "output": None if timer is None else timer.output,
        "domain": None if timer is None else str(timer.domain),
        "tag": None if timer is None else timer.tag,
    }
