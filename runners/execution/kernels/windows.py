"""The assignment of windows, and the fold, in the kernel of a stage (Dataflow Model, section 2.2.1)."""

from __future__ import annotations

from ....windowing import (
    CalendarDays,
    CalendarMonths,
    CalendarYears,
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from ....windowing.buckets import bucketing
from ....windowing.timestamp_combiner import TimestampCombiner
from .descriptions import FoldOperation, WindowOperation
from .folds import fold_source
from .source import Columns, Lines

# Window functions that assign exactly one window to every timestamp.
ONE_WINDOW = (FixedWindows, GlobalWindows, Sessions, CalendarDays, CalendarMonths, CalendarYears)


def assign_windows(
    out: Lines, columns: Columns, i: int, operation: WindowOperation, value: str, fold: FoldOperation | None
) -> None:
    """Write operation `i`, which assigns windows to the element in `value`.

    If a fold follows at once, it may find its cells without the window object.
    """
    fn = operation.window_fn
    w = f"w{i + 1}"
    before_t_varies = columns.t not in columns.varying
    # An element of several windows counts once in each of them (Dataflow Model, figure 3).
    explode(out, columns, i, value)
    if not fn.depends_only_on_timestamp:
        out.line(f"{w} = assign{i}({value}, {columns.t}, {columns.w})")
        columns.varying.add(w)
    elif before_t_varies or type(fn) is GlobalWindows:
        out.before_loop(f"{w} = assign{i}({columns.t if before_t_varies else 0})")
    elif fold is not None and type(fn) is Sessions:
        columns.gap = fn.gap_micros
        columns.varying.add(w)
    else:
        bucket = _bucket(fn, i, columns.t)
        columns.varying.add(w)
        if bucket is None:
            out.line(f"{w} = assign{i}({columns.t})")
        elif fold is not None and type(fn) in ONE_WINDOW and not _needs_window(fold):
            columns.bucket = bucket, i
        else:
            out.line(f"b = {bucket}")
            out.line(f"{w} = cache{i}.get(b)")
            out.line(f"if {w} is None: {w} = remember{i}(b, {columns.t})")
    columns.w = w
    columns.one_window = type(fn) in ONE_WINDOW
    if not columns.one_window and not (type(fn) is SlidingWindows and fn.period <= fn.size):
        out.line(f"if not {w}: continue")


def _bucket(fn: WindowFn, i: int, t: str) -> str | None:
    """Return the expression of a timestamp's bucket; None if there are no buckets."""
    if type(fn) is FixedWindows:
        offset, size = fn.offset.micros, fn.size.micros
        return f"({t} - {offset}) // {size}" if offset else f"{t} // {size}"
    return None if bucketing(fn) is None else f"bucket_of{i}({t})"


def _needs_window(fold: FoldOperation) -> bool:
    return fold.combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED


def explode(out: Lines, columns: Columns, i: int, value: str) -> None:
    """Write a loop over the windows of the element in `value`, before operation `i`.

    In each of them the element is another one, which the operation may change.
    """
    columns.bucket = columns.gap = None
    if columns.one_window:
        return
    w = f"u{i + 1}"
    out.line(f"whole{i} = {value}")
    out.line(f"for win in {columns.w}:")
    out.depth += 1
    out.line(f"if type(whole{i}) not in {out.bind('IMMUTABLE')}: {value} = unshared(whole{i})")
    out.line(f"{w} = (win,)")
    columns.w, columns.one_window = w, True
    columns.varying.add(w)


def fold_pair(out: Lines, columns: Columns, fold: FoldOperation) -> None:
    """Write the fold of the element whose key is in `k` and whose value is in `x`."""
    if fold.merging:
        _fold_pending(out, columns, fold)
    else:
        _fold_cells(out, columns, fold)


def _fold_pending(out: Lines, columns: Columns, fold: FoldOperation) -> None:
    t = columns.t
    out.before_loop("pending = cells.pending; pending_get = pending.get")
    if columns.gap is not None:
        window = f"{t}, {columns.gap}"
    else:
        out.line(f"for win in {columns.w}:")
        out.depth += 1
        _unshare_in_windows(out, columns)
        window = "win[0], win[1] - win[0]"
    out.line("acc = pending_get(k)")
    out.line("if acc is None: acc = pending[k] = []")
    if not fold.window_fn.merges_by_overlap:
        out.line(f"acc.append((win, win, {t}, x))")
    else:
        out.line(f"acc += {window}, x, {t}" if fold.stamped else f"acc += {window}, x")


def _fold_cells(out: Lines, columns: Columns, fold: FoldOperation) -> None:
    # Without stamps the accumulators are all that is needed of a window's cells.
    cells, kept = ("c", "") if fold.stamped else ("d", ".accumulators")
    parts = ["win = c.window; d = c.accumulators; st = c.stamps"] if fold.stamped else []
    get = "d.get"
    if columns.w not in columns.varying and columns.one_window:
        out.before_loop(f"{cells} = cells.open({columns.w}[0]){kept}", *parts, "get = d.get")
        get = "get"
    elif columns.w not in columns.varying:
        out.before_loop(f"opened = [cells.open(win){kept} for win in {columns.w}]")
        out.line(f"for {cells} in opened:")
        out.depth += 1
        _unshare_in_windows(out, columns)
    else:
        _find_cells(out, columns, cells, kept)
    if get != "get":
        for code in parts:
            out.line(code)
    t = columns.t
    if fold.combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
        out.line(f"tt = transformed(win, {t})")
        t = "tt"
    _fold_one(out, fold, get)
    if fold.stamped:
        _keep_stamp(out, t, fold)


def _unshare_in_windows(out: Lines, columns: Columns) -> None:
    """Copy a value that is added to groups of several windows, since the consumer of one of them may change it."""
    with out.block(f"if type(x) not in {out.bind('IMMUTABLE')} and len({columns.w}) > 1:"):
        out.line("x = unshared(x)")


def _find_cells(out: Lines, columns: Columns, cells: str, kept: str) -> None:
    """Write how the cells of an element's window are found among those of the elements before."""
    out.before_loop("opened = {}")
    key, window = "win", "win"
    if columns.bucket is not None:
        bucket, i = columns.bucket
        key, window = "b", f"assign{i}({columns.t})[0]"
        out.line(f"b = {bucket}")
    elif columns.one_window:
        out.line(f"win = {columns.w}[0]")
    else:
        out.line(f"for win in {columns.w}:")
        out.depth += 1
        _unshare_in_windows(out, columns)
    out.line(f"try: {cells} = opened[{key}]")
    out.line(f"except KeyError: {cells} = opened[{key}] = cells.open({window}){kept}")


def _fold_one(out: Lines, fold: FoldOperation, get: str) -> None:
    source = fold_source(fold.combine_fn, fold.counts)
    if source.zero:
        out.line(f"d[k] = {source.of(source.step, f'{get}(k, 0)')}")
        return
    missing = out.bind("MISSING")
    out.line(f"acc = {get}(k, {missing})")
    first = source.of(source.first)
    if source.in_place:
        out.line(f"if acc is {missing}: d[k] = {first}")
        out.line(f"else: {source.step.format(acc='acc', x='x')}")
    else:
        out.line(f"d[k] = {first} if acc is {missing} else {source.of(source.step)}")


def _keep_stamp(out: Lines, t: str, fold: FoldOperation) -> None:
    sign = "<" if fold.combiner is TimestampCombiner.OUTPUT_AT_LATEST else ">"
    out.line("held = st.get(k)")
    out.line(f"if held is None or held {sign} {t}: st[k] = {t}")
