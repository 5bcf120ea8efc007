"""The Python source of a fused stage.

One function is generated for each stage and each *shape* of bundle (which columns vary
from element to element).  A stage of a Map, a Filter and a FlatMap becomes

    def run(values, t, w, p, s):
        ...
        for v0 in values:
            v1 = f0(v0)
            if not f1(v1): continue
            for v3 in f2(v1):
                put(v3)

which costs what a hand-written loop calling the same functions does.  Two things come on
top.  What a function returns might be a `TimestampedValue`, a `WindowedValue` or a
`TaggedOutput`: one look at its type per result, unless the bytecode shows that it can't be;
those that are go to a list and through the rest of the stage separately.  (Of a function
that has given mostly `TimestampedValue`s, these are unwrapped in the loop.)  And where the
stage ends in a grouping, the fold into the grouping's cells is part of the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import attrs

from ...sdk import graph
from ...sdk.dofn import (
    DoFn,
    ExpressionDoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
    TimestampDoFn,
)
from ...sdk.process_signature import Argument
from ...windowing import (
    CalendarDays,
    CalendarMonths,
    CalendarYears,
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from ...windowing.timestamp import MAX_MICROS, MIN_MICROS
from ...windowing.timestamp_combiner import TimestampCombiner
from .plain_results import returns_pair, returns_plain

# Window functions that assign every timestamp exactly one window.
_ONE_WINDOW = (FixedWindows, GlobalWindows, Sessions, CalendarDays, CalendarMonths, CalendarYears)


@attrs.frozen
class Shape:
    """Which columns of a bundle vary from element to element.

    `one_window` says that the windows don't vary and are a single one.
    """

    timestamps: bool
    windows: bool
    panes: bool
    signs: bool
    one_window: bool


ANY_SHAPE = Shape(True, True, True, True, False)


@attrs.frozen
class ParDoOperation:
    """A ParDo, ready to be called.

    Attributes:
      label: its full label.
      fn: the worker's own copy of the DoFn.
      arguments: what its function is called with.
      windowed_views: indices of the side inputs whose view depends on the element's window.
      remembers: whether its outputs are kept, to be retracted as they were.
    """

    label: str
    fn: DoFn
    arguments: tuple[Argument, ...]
    windowed_views: frozenset[int] = frozenset()
    remembers: bool = False

    @property
    def decides_signs(self) -> bool:
        """Whether it sees the sign, and its outputs are no retractions unless it says so."""
        return any(argument.marker is DoFn.SignParam for argument in self.arguments)

    @property
    def observes_window(self) -> bool:
        """Whether an element in several windows has to be processed in each of them."""
        for argument in self.arguments:
            if argument.marker is DoFn.WindowParam:
                return True
            if isinstance(argument.value, graph.SideInputArgument) and argument.value.index in self.windowed_views:
                return True
        return False


@attrs.frozen
class WindowOperation:
    """An AssignWindows."""

    label: str
    window_fn: WindowFn


Operation: TypeAlias = ParDoOperation | WindowOperation


@attrs.frozen
class FoldOperation:
    """The fold of a grouping, at the end of a stage.

    Attributes:
      label: the grouping's full label.
      first, step: expressions over `acc` and `x`; both None to collect values in lists.
      combiner: which timestamps it keeps.
      window_fn: the grouping's window function.
    """

    label: str
    first: str | None
    step: str | None
    combiner: TimestampCombiner
    window_fn: WindowFn

    @property
    def merging(self) -> bool:
        """Whether elements are kept as they are until their windows have merged."""
        return self.window_fn.is_merging

    @property
    def stamped(self) -> bool:
        """Whether the timestamps of elements matter."""
        return self.combiner is not TimestampCombiner.OUTPUT_AT_EOW

    @property
    def pending_width(self) -> int:
        """How many entries of `Cells.pending` an element is, where windows merge by overlap."""
        return 4 if self.stamped else 3


@attrs.frozen
class Generated:
    """The source, and what each of its lines is about.

    Attributes:
      lines: for each line of the source, the index of its operation (the fold's is the
        number of operations; -1 for none) and the variable that holds the operation's input.
    """

    source: str
    lines: tuple[tuple[int, str], ...]


class _Source:
    """Lines under construction."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.about: list[tuple[int, str]] = []
        self.depth = 0
        self.operation = -1
        self.input = "v0"

    def line(self, code: str) -> None:
        self.text.append("    " * self.depth + code)
        self.about.append((self.operation, self.input))

    # Errors on lines that hand bundles on are those of whoever takes them.
    @contextmanager
    def about_nothing(self) -> Iterator[None]:
        operation, self.operation = self.operation, -1
        yield
        self.operation = operation

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self.depth += 1
        yield
        self.depth -= 1


@attrs.define
class _Columns:
    """The variables that hold an element's columns at one point of the stage."""

    t: str
    w: str
    p: str
    s: str
    # Which of them vary from element to element.
    varying: set[str]
    # Whether `w` is known to be a single window.
    one_window: bool
    # The bucket that decides the window, and the operation that assigned it.
    bucket: tuple[str, int] | None = None
    # Set by Sessions: windows are [t, t + gap).
    gap: int | None = None

    @property
    def all(self) -> str:
        return f"{self.t}, {self.w}, {self.p}, {self.s}"


def generate(
    operations: tuple[Operation, ...],
    fold: FoldOperation | None,
    shape: Shape,
    limit: int,
    first: int = 0,
    timestamped: Container[int] = (),
) -> Generated:
    """The source of a function `run(values, t, w, p, s)` for the operations from `first` on.

    The operations in `timestamped` are those whose `TimestampedValue`s stay in the loop.
    It hands on bundles of about `limit` elements where they grow larger than that.  It
    expects in its globals: `f<i>`, each operation's function; `a<i>_<j>`, its constant
    arguments; `B`, a dict of what changes from bundle to bundle; and the names that
    `stage.py` lists.
    """
    source = _Source()
    with source.block("def run(values, t, w, p, s):"):
        generator = _Generator(source, operations, fold, shape, limit, first, timestamped)
        generator.write()
    source.text[0] = f"def run({', '.join(['values, t, w, p, s', *generator.bound])}):"
    return Generated("\n".join(source.text), tuple(source.about))


class _Generator:
    def __init__(
        self,
        source: _Source,
        operations: tuple[Operation, ...],
        fold: FoldOperation | None,
        shape: Shape,
        limit: int,
        first: int,
        timestamped: Container[int],
    ) -> None:
        self.out = source
        self.timestamped = timestamped
        self.first = first
        self.operations = operations
        self.fold = fold
        self.limit = limit
        names = {"t": shape.timestamps, "w": shape.windows, "p": shape.panes, "s": shape.signs}
        self.inputs = [name for name, varies in names.items() if varies]
        current = {name: f"{name}0" if varies else name for name, varies in names.items()}
        varying = {current[name] for name in self.inputs}
        t, w, p, s = current.values()
        self.columns = _Columns(t, w, p, s, varying, shape.one_window)
        self.pends: list[int] = []
        # What the loop calls: parameters with a default, since a local variable is read faster.
        self.bound: dict[str, None] = {}
        # Lines that come before the loop are inserted here.
        self.before: list[tuple[str, tuple[int, str]]] = []
        self.pair: tuple[str, str] | None = None
        self.certain_pair = False
        self.flat = False

    def write(self) -> None:
        out = self.out
        start = len(out.text)
        value = f"v{self.first}"
        loop = f"for {value}, {', '.join(f'{n}0' for n in self.inputs)} in zip(values, {', '.join(self.inputs)}):"
        with out.block(loop if self.inputs else f"for {value} in values:"):
            depth = out.depth
            for i, operation in list(enumerate(self.operations))[self.first :]:
                out.operation, out.input = i, value
                last = i == len(self.operations) - 1
                if isinstance(operation, WindowOperation):
                    self._assign_windows(i, operation, value, last)
                else:
                    value = self._pardo(i, operation, value, last)
            out.operation, out.input = len(self.operations), value
            if self.fold is not None:
                self._fold(self.fold, value)
            else:
                self._append(value)
            out.depth = depth
        out.operation = -1
        if self.fold is None:
            with out.block("if o:"):
                out.line(self._emit())
        for i in self.pends:
            with out.block(f"if P{i}:"):
                out.line(f"specials({i}, P{i})")
        head = [(f"P{i} = []; pend{i} = P{i}.append; k{i} = None", (-1, "v0")) for i in self.pends]
        for code, about in reversed([*head, *self.before]):
            out.text.insert(start, "    " + code)
            out.about.insert(start, about)

    # ParDo

    def _pardo(self, i: int, operation: ParDoOperation, value: str, last: bool) -> str:
        out, fn = self.out, operation.fn
        self.pair, self.certain_pair = None, False
        if operation.observes_window:
            self._explode(i)
        if isinstance(fn, ExpressionDoFn):
            return self._expression(i, fn, value, last)
        star = "*" if isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn)) else ""
        call = f"{self._bind(f'f{i}')}({self._arguments(i, operation, value, star)})"
        if isinstance(fn, FilterDoFn) and not operation.remembers:
            out.line(f"if not {call}: continue")
            return value
        if isinstance(fn, TimestampDoFn):
            self._timestamp(i, call)
            return value
        if operation.decides_signs:
            self.columns.s = "1"
        if operation.remembers:
            return self._remembered(i, fn, call, value)
        result = f"v{i + 1}"
        if isinstance(fn, MapDoFn):
            out.line(f"{result} = {call}")
            self.certain_pair = returns_pair(fn.fn)
            if not returns_plain(fn.fn, of_element=not star):
                self._look_at(i, result)
            return result
        self.flat = True
        out.line(f"r{i} = {call}")
        out.line(f"if type(r{i}) is not q{i}: q{i} = iterable_type(r{i})")
        self._before(f"q{i} = None")
        out.line(f"if r{i} is None: continue")
        out.line(f"for {result} in r{i}:")
        out.depth += 1
        if not (isinstance(fn, FlatMapDoFn) and fn.fn in (str.split, str.splitlines)):
            self._look_at(i, result)
        return result

    def _remembered(self, i: int, fn: DoFn, call: str, value: str) -> str:
        out, columns, result = self.out, self.columns, f"v{i + 1}"
        self.flat = True
        if isinstance(fn, FilterDoFn):
            call = f"({value},) if {call} else ()"
        elif isinstance(fn, MapDoFn):
            call = f"({call},)"
        out.line(f"for {result} in memory{i}({columns.s}, {value}, {columns.t}, {columns.w}, lambda: {call}):")
        out.depth += 1
        self._look_at(i, result)
        return result

    def _expression(self, i: int, fn: ExpressionDoFn, value: str, last: bool) -> str:
        tree = ast.parse(fn.expression, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "v":
                node.id = value
        if isinstance(tree.body, ast.Tuple) and len(tree.body.elts) == 2 and fn.plain:
            self.certain_pair = True
            if last and self.fold is not None:
                first, second = (ast.unparse(item) for item in tree.body.elts)
                self.pair = first, second
                return value
        result = f"v{i + 1}"
        self.out.line(f"{result} = {ast.unparse(tree)}")
        if not fn.plain:
            self._look_at(i, result)
        return result

    def _timestamp(self, i: int, call: str) -> None:
        out, columns = self.out, self.columns
        t = f"t{i + 1}"
        out.line(f"x = {call}")
        out.line(f"{t} = x * 1000000 if type(x) is int else micros_of(x)")
        out.line(f"if not {MIN_MICROS} <= {t} <= {MAX_MICROS}: out_of_range(x)")
        columns.t = t
        columns.varying.add(t)
        columns.bucket = columns.gap = None

    def _look_at(self, i: int, result: str) -> None:
        out, columns = self.out, self.columns
        if i not in self.timestamped:
            self._set_special_aside(i, result)
            return
        before, columns.t = columns.t, f"t{i + 1}"
        columns.varying.add(columns.t)
        columns.bucket = columns.gap = None
        with out.block(f"if type({result}) is {self._bind('TIMESTAMPED')}:"):
            out.line(f"{columns.t} = {result}.micros; {result} = {result}.value")
        with out.block("else:"):
            out.line(f"{columns.t} = {before}")
            self._set_special_aside(i, result)

    def _set_special_aside(self, i: int, result: str) -> None:
        out = self.out
        self.pends.append(i)
        with out.block(f"if type({result}) is not k{i}:"):
            with out.block(f"if type({result}) in SPECIAL:"):
                out.line(f"pend{i}(({result}, {self.columns.all}))")
                with out.about_nothing():
                    out.line(f"if len(P{i}) >= {self.limit}: specials({i}, P{i})")
                out.line("continue")
            out.line(f"k{i} = type({result})")

    def _explode(self, i: int) -> None:
        columns = self.columns
        columns.bucket = columns.gap = None
        if columns.one_window:
            return
        w = f"u{i + 1}"
        self.out.line(f"for win in {columns.w}:")
        self.out.depth += 1
        self.out.line(f"{w} = (win,)")
        columns.w, columns.one_window = w, True
        columns.varying.add(w)

    def _arguments(self, i: int, operation: ParDoOperation, value: str, star: str) -> str:
        c = self.columns
        by_marker = {
            "ElementParam": f"{star}{value}",
            "TimestampParam": f"of_micros({c.t})",
            "WindowParam": f"{c.w}[0]",
            "WindowedValueParam": f"windowed_value({value}, {c.t}, {c.w}, {c.p})",
            "PaneInfoParam": c.p,
            "KeyParam": f"{value}[0]",
            "SignParam": c.s,
        }
        arguments = []
        for j, argument in enumerate(operation.arguments):
            name = f"a{i}_{j}"
            if argument.marker is not None and argument.marker.name in by_marker:
                code = by_marker[argument.marker.name]
            elif argument.marker is not None:
                self._before(f"{name} = B['{name}']")
                code = name
            elif isinstance(argument.value, graph.SideInputArgument):
                self._before(f"{name} = B['{name}']")
                code = f"{name}({c.w}[0])" if argument.value.index in operation.windowed_views else name
            else:
                code = name
            arguments.append(f"{argument.keyword}={code}" if argument.keyword else code)
        return ", ".join(arguments)

    # AssignWindows

    def _assign_windows(self, i: int, operation: WindowOperation, value: str, last: bool) -> None:
        out, columns, fn = self.out, self.columns, operation.window_fn
        w = f"w{i + 1}"
        folds_next = last and self.fold is not None
        before_t_varies = columns.t not in columns.varying
        # An element of several windows counts as one in each of them (Dataflow Model, figure 3).
        self._explode(i)
        if not fn.depends_only_on_timestamp:
            out.line(f"{w} = assign{i}({value}, {columns.t}, {columns.w})")
            columns.varying.add(w)
        elif before_t_varies or type(fn) is GlobalWindows:
            self._before(f"{w} = assign{i}({columns.t if before_t_varies else 0})")
        elif folds_next and type(fn) is Sessions:
            columns.gap = fn.gap_micros
            columns.varying.add(w)
        else:
            bucket = fn.bucket_expression(columns.t)
            columns.varying.add(w)
            if bucket is None:
                out.line(f"{w} = assign{i}({columns.t})")
            elif folds_next and type(fn) in _ONE_WINDOW and not self._needs_window():
                # The fold finds its cells by the bucket.
                columns.bucket = (bucket, i)
            else:
                out.line(f"b = {bucket}")
                out.line(f"{w} = cache{i}.get(b)")
                out.line(f"if {w} is None: {w} = remember{i}(b, {columns.t})")
        columns.w = w
        columns.one_window = type(fn) in _ONE_WINDOW
        if not columns.one_window and not (type(fn) is SlidingWindows and fn.period <= fn.size):
            out.line(f"if not {w}: continue")

    def _needs_window(self) -> bool:
        return self.fold is not None and self.fold.combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED

    # The end of the stage

    def _append(self, value: str) -> None:
        out, columns = self.out, self.columns
        self._before("o = []")
        self.varying = [n for n in ("t", "w", "p", "s") if getattr(columns, n) in columns.varying]
        self._before(*(f"o{n} = []" for n in self.varying))
        out.line(f"o.append({value})")
        for n in self.varying:
            out.line(f"o{n}.append({getattr(columns, n)})")
        if self.flat:
            with out.about_nothing(), out.block(f"if len(o) >= {self.limit}:"):
                out.line(self._emit())
                out.line("o = []")
                for n in self.varying:
                    out.line(f"o{n} = []")

    def _emit(self) -> str:
        columns = self.columns
        parts = [f"o{n}" if n in self.varying else getattr(columns, n) for n in ("t", "w", "p", "s")]
        return f"emit(o, {', '.join(parts)})"

    def _fold(self, fold: FoldOperation, value: str) -> None:
        out = self.out
        if self.pair is not None:
            out.line(f"k = {self.pair[0]}; x = {self.pair[1]}")
        else:
            if not self.certain_pair:
                self._before("kp = None")
                out.line(f"if type({value}) is not kp: kp = pair_type({value})")
            out.line(f"k, x = {value}")
        if fold.merging:
            self._fold_pending(fold)
        else:
            self._fold_cells(fold)

    def _fold_pending(self, fold: FoldOperation) -> None:
        out, columns = self.out, self.columns
        t = columns.t
        self._before("pending = cells.pending; pending_get = pending.get")
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

    def _fold_cells(self, fold: FoldOperation) -> None:
        out, columns = self.out, self.columns
        stamped = fold.stamped
        get = "d.get"
        if columns.bucket is not None:
            bucket, i = columns.bucket
            self._before("near = {}")
            out.line(f"b = {bucket}")
            out.line("try: c = near[b]")
            out.line(f"except KeyError: c = near[b] = cells.open(assign{i}({columns.t})[0])")
        elif columns.w not in columns.varying and columns.one_window:
            self._before(f"c = cells.open({columns.w}[0])", "d = c.accumulators; get = d.get")
            self._before(*(["st = c.stamps"] if stamped else []), f"win = {columns.w}[0]")
            get = "get"
        elif columns.w not in columns.varying:
            self._before(f"cs = [cells.open(win) for win in {columns.w}]")
            out.line("for c in cs:")
            out.depth += 1
        else:
            self._before("near = {}")
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
        self._fold_one(fold, get)
        if stamped:
            t = columns.t
            if fold.combiner is TimestampCombiner.OUTPUT_AT_EARLIEST_TRANSFORMED:
                out.line(f"tt = transformed(win, {t})")
                t = "tt"
            sign = "<" if fold.combiner is TimestampCombiner.OUTPUT_AT_LATEST else ">"
            out.line("held = st.get(k)")
            out.line(f"if held is None or held {sign} {t}: st[k] = {t}")

    def _fold_one(self, fold: FoldOperation, get: str) -> None:
        out = self.out
        if fold.first is None:
            out.line(f"acc = {get}(k)")
            out.line("if acc is None: d[k] = [x]")
            out.line("else: acc.append(x)")
        else:
            out.line(f"acc = {get}(k, {self._bind('MISSING')})")
            out.line(f"d[k] = {fold.first} if acc is MISSING else {fold.step}")

    def _bind(self, name: str) -> str:
        self.bound[f"{name}={name}"] = None
        return name

    def _before(self, *codes: str) -> None:
        for code in codes:
            if all(code != known for known, _ in self.before):
                self.before.append((code, (self.out.operation, self.out.input)))
