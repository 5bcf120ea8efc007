"""The end of a stage's function where a grouping follows: the fold into the grouping's cells, in the same loop."""

from __future__ import annotations

from ...windowing.timestamp_combiner import TimestampCombiner
from .source_lines import Columns, Lines
from .windows.combining import FoldOperation


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
        window = "win[0], win[1] - win[0]"
    out.line("acc = pending_get(k)")
    out.line("if acc is None: acc = pending[k] = []")
    if not fold.window_fn.merges_by_overlap:
        out.line(f"acc.append((win, win, {t}, x))")
    else:
        out.line(f"acc += {window}, x, {t}" if fold.stamped else f"acc += {window}, x")


def _fold_cells(out: Lines, columns: Columns, fold: FoldOperation) -> None:
    stamped = fold.stamped
    get = "d.get"
    if columns.bucket is not None:
        bucket, i = columns.bucket
        out.before_loop("near = {}")
        out.line(f"b = {bucket}")
        out.line("try: c = near[b]")
        out.line(f"except KeyError: c = near[b] = cells.open(assign{i}({columns.t})[0])")
    elif columns.w not in columns.varying and columns.one_window:
        out.before_loop(f"c = cells.open({columns.w}[0])", "d = c.accumulators; get = d.get")
        out.before_loop(*(["st = c.stamps"] if stamped else []), f"win = {columns.w}[0]")
        get = "get"
    elif columns.w not in columns.varying:
        out.before_loop(f"cs = [cells.open(win) for win in {columns.w}]")
        out.line("for c in cs:")
        out.depth += 1
    else:
        out.before_loop("near = {}")
        if columns.one_window:
            out.line(f"win = {columns.w}[0]")
        else:
            out.line(f"for win in {columns.w}:")
            out.depth += 1
        out.line("try: c = near[win]")
        out.line("except KeyError: c = near[win] = cells.open(win)")
    if get != "get":
        out.line("d = c.accumulators")
        if stamped:
            out.line("st = c.stamps; win = c.window")
    _fold_one(out, fold, get)
    if stamped:
        _keep_stamp(out, columns.t, fold)


def _fold_one(out: Lines, fold: FoldOperation, get: str) -> None:
    if fold.first is None:
        out.line(f"acc = {get}(k)")
        out.line("if acc is None: d[k] = [x]")
        out.line("else: acc.append(x)")
    else:
        out.line(f"acc = {get}(k, {out.bind('MISSING')})")
        out.line(f"d[k] = {fold.first} if acc is MISSING else {fold.step}")


def _keep_stamp(out: Lines, t: str, fold: FoldOperation) -> None:
    if fold.combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
        out.line(f"tt = transformed(win, {t})")
        t = "tt"
    sign = "<" if fold.combiner is TimestampCombiner.OUTPUT_AT_LATEST else ">"
    out.line("held = st.get(k)")
    out.line(f"if held is None or held {sign} {t}: st[k] = {t}")
