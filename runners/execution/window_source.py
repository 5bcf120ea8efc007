"""The part of a stage's function that assigns windows (Dataflow Model, section 2.2.1)."""

from __future__ import annotations

from ...windowing import (
    CalendarDays,
    CalendarMonths,
    CalendarYears,
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
)
from ...windowing.timestamp_combiner import TimestampCombiner
from .source_lines import Columns, Lines
from .stage_operations import WindowOperation
from .windows.combining import FoldOperation

# Window functions that assign every timestamp exactly one window.
ONE_WINDOW = (FixedWindows, GlobalWindows, Sessions, CalendarDays, CalendarMonths, CalendarYears)


def assign_windows(
    out: Lines, columns: Columns, i: int, operation: WindowOperation, value: str, fold: FoldOperation | None
) -> None:
    """Write operation `i`, which gives the element in `value` other windows.

    The fold is what follows on it at once: it may find its cells without a window being made.
    """
    fn = operation.window_fn
    w = f"w{i + 1}"
    before_t_varies = columns.t not in columns.varying
    # An element of several windows counts as one in each of them (Dataflow Model, figure 3).
    explode(out, columns, i)
    if not fn.depends_only_on_timestamp:
        out.line(f"{w} = assign{i}({value}, {columns.t}, {columns.w})")
        columns.varying.add(w)
    elif before_t_varies or type(fn) is GlobalWindows:
        out.before_loop(f"{w} = assign{i}({columns.t if before_t_varies else 0})")
    elif fold is not None and type(fn) is Sessions:
        columns.gap = fn.gap_micros
        columns.varying.add(w)
    else:
        bucket = fn.bucket_expression(columns.t)
        columns.varying.add(w)
        if bucket is None:
            out.line(f"{w} = assign{i}({columns.t})")
        elif fold is not None and type(fn) in ONE_WINDOW and not _needs_window(fold):
            columns.bucket = (bucket, i)
        else:
            out.line(f"b = {bucket}")
            out.line(f"{w} = cache{i}.get(b)")
            out.line(f"if {w} is None: {w} = remember{i}(b, {columns.t})")
    columns.w = w
    columns.one_window = type(fn) in ONE_WINDOW
    if not columns.one_window and not (type(fn) is SlidingWindows and fn.period <= fn.size):
        out.line(f"if not {w}: continue")


def _needs_window(fold: FoldOperation) -> bool:
    return fold.combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED


def explode(out: Lines, columns: Columns, i: int) -> None:
    """Before operation `i`, have an element of several windows be one in each of them."""
    columns.bucket = columns.gap = None
    if columns.one_window:
        return
    w = f"u{i + 1}"
    out.line(f"for win in {columns.w}:")
    out.depth += 1
    out.line(f"{w} = (win,)")
    columns.w, columns.one_window = w, True
    columns.varying.add(w)
