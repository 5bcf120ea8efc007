"""Generates the window assignment and the fold of a stage's function (Dataflow Model, section 2.2.1)."""

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
from ....windowing.timestamp_combiner import TimestampCombiner
from ..windows.combining import FoldOperation
from .operations import WindowOperation
from .source_lines import Columns, Lines

# Window functions that assign exactly one window to every timestamp.
ONE_WINDOW = (FixedWindows, GlobalWindows, Sessions, CalendarDays, CalendarMonths, CalendarYears)

# The seconds of a bundle whose cells are kept, at most: where each element has another second, that takes time.
_SECONDS = 1024


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
        bucket = fn.bucket_expression(columns.t)
        columns.varying.add(w)
        if bucket is None:
            out.line(f"{w} = assign{i}({columns.t})")
        elif fold is not None and type(fn) in ONE_WINDOW and not _needs_window(fold):
            columns.bucket = (by_seconds(fn, fold) or bucket if columns.at is not None else bucket, i)
        else:
            out.line(f"b = {bucket}")
            out.line(f"{w} = cache{i}.get(b)")
            out.line(f"if {w} is None: {w} = remember{i}(b, {columns.t})")
    columns.w = w
    columns.one_window = type(fn) in ONE_WINDOW
    if not columns.one_window and not (type(fn) is SlidingWindows and fn.period <= fn.size):
        out.line(f"if not {w}: continue")


def by_seconds(fn: WindowFn, fold: FoldOperation) -> str | None:
    """Return the expression of the bucket by which the fold finds its cells from `at`, a `TimestampedValue.at`.

    None if the fold looks at timestamps, or the windows don't begin and end with whole seconds.
    """
    if type(fn) is not FixedWindows or fold.stamped or fold.merging:
        return None
    seconds = fn.bucket_of_seconds("at")
    return None if seconds is None else f"{seconds} if type(at) is int else {fn.bucket_expression('at[0]')}"


def micros_of_at(t: str, at: str) -> str:
    """Return the assignment to `t` of the microseconds of a `TimestampedValue.at`."""
    return f"{t} = {at} * 1000000 if type({at}) is int else {at}[0]"


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
    cells, kept = ("c", "") if fold.stamped or fold.column is not None else ("d", ".accumulators")
    parts = ["win = c.window"] if fold.stamped else []
    if fold.stamped and fold.column is None:
        parts.append("d = c.accumulators; st = c.stamps")
    get = "d.get"
    if columns.w not in columns.varying and columns.one_window:
        out.before_loop(f"{cells} = cells.open({columns.w}[0]){kept}", *parts)
        if fold.column is None:
            out.before_loop("get = d.get")
        get = "get"
    elif columns.w not in columns.varying:
        out.before_loop(f"near = [cells.open(win){kept} for win in {columns.w}]")
        out.line(f"for {cells} in near:")
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
    if fold.column is not None:
        column = fold.column
        if column != "c":
            out.line(f"column = {column}")
            column = "column"
        out.line("; ".join(f"{column}.append({item})" for item in ("k", "x", t)[: 3 if fold.stamped else 2]))
        return
    _fold_one(out, fold, get)
    if fold.stamped:
        _keep_stamp(out, t, fold)


def _unshare_in_windows(out: Lines, columns: Columns) -> None:
    """Copy a value that is added to groups of several windows, since the consumer of one of them may change it."""
    with out.block(f"if type(x) not in {out.bind('IMMUTABLE')} and len({columns.w}) > 1:"):
        out.line("x = unshared(x)")


def _find_cells(out: Lines, columns: Columns, cells: str, kept: str) -> None:
    """Write how the cells of an element's window are found among those of the elements before."""
    out.before_loop("near = {}")
    depth, at = out.depth, columns.at
    if at is not None:
        # Many elements have the same second, which is found in less time than its bucket is computed.
        out.before_loop("at_seconds = {}; of_second = at_seconds.get")
        out.line(f"{cells} = of_second({at}) if type({at}) is int else None")
        out.line(f"if {cells} is None:")
        out.depth += 1
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
    out.line(f"try: {cells} = near[{key}]")
    with out.block("except KeyError:"):
        if at is not None:
            out.line(micros_of_at(columns.t, at))
        out.line(f"{cells} = near[{key}] = cells.open({window}){kept}")
    if at is not None:
        out.line(f"if type({at}) is int and len(at_seconds) < {_SECONDS}: at_seconds[{at}] = {cells}")
        out.depth = depth


def _fold_one(out: Lines, fold: FoldOperation, get: str) -> None:
    if fold.first is None or fold.step is None:
        out.line(f"acc = {get}(k)")
        out.line("if acc is None: d[k] = [x]")
        out.line("else: acc.append(x)")
    elif fold.step.count("acc") == 1 and fold.first == fold.step.replace("acc", "0"):
        # A new cell is a 0 that the step is applied to.
        out.line(f"d[k] = {fold.step.replace('acc', f'{get}(k, 0)')}")
    else:
        out.line(f"acc = {get}(k, {out.bind('MISSING')})")
        out.line(f"d[k] = {fold.first} if acc is MISSING else {fold.step}")


def _keep_stamp(out: Lines, t: str, fold: FoldOperation) -> None:
    sign = "<" if fold.combiner is TimestampCombiner.OUTPUT_AT_LATEST else ">"
    out.line("held = st.get(k)")
    out.line(f"if held is None or held {sign} {t}: st[k] = {t}")
