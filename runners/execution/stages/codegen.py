"""Generates the Python source of a fused stage.

One function is generated for each stage and each *shape* of bundle (which columns vary from element to element).  A
stage of a Map, a Filter and a FlatMap becomes

    def run(values, t, w, p, s):
        ...
        for v0 in values:
            v1 = f0(v0)
            if not f1(v1): continue
            for v3 in f2(v1):
                put(v3)

which costs as much as a hand-written loop that calls the same functions.  Two things are added.  A function might
return a `TimestampedValue`, a `WindowedValue` or a `TaggedOutput`: the type of each result is checked, unless the
bytecode shows that it can't be one.  Such results are collected in a list and go through the rest of the stage
separately.  (If a function returns mostly `TimestampedValue`s, these are unwrapped in the loop.)  And where the stage
ends in a grouping, the fold into the grouping's cells is part of the loop.

A loop that may be left checks `over` before each element, and returns the number of elements that it has not reached.

While a page shows the run, some bundles go through a function that also counts the elements between its operations.
"""

from __future__ import annotations

import ast
from collections.abc import Container

import attrs

from ....sdk import graph
from ....sdk.dofn.dofn import (
    DoFn,
    ExpressionDoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
    TimestampDoFn,
)
from ....sdk.elements.bundle import Bundle
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..windows.combining import FoldOperation
from .operations import Operation, ParDoOperation, WindowOperation
from .plain_results import returns_pair, returns_plain
from .source_lines import Columns, Lines, unshare
from .window_codegen import assign_windows, by_seconds, explode, fold_pair, micros_of_at

# The largest number of a function's output batches, each of which may be large, that are set aside.
_BATCHES = 64


@attrs.frozen
class Shape:
    """The columns of a bundle that vary from element to element.

    `one_window` says that the windows don't vary and are a single one.
    """

    timestamps: bool
    windows: bool
    panes: bool
    signs: bool
    one_window: bool

    @classmethod
    def of(cls, bundle: Bundle) -> Shape:
        """Return the shape of a bundle."""
        windows = bundle.windows
        return cls(
            type(bundle.timestamps) is list,
            type(windows) is list,
            type(bundle.panes) is list,
            type(bundle.signs) is list,
            type(windows) is tuple and len(windows) == 1,
        )


@attrs.frozen
class Generated:
    """The source, with the operation of each line.

    Attributes:
      lines: for each line of the source, the index of its operation (the fold's is the number of operations; -1 for
        none) and the variable of the operation's input.
    """

    source: str
    lines: tuple[tuple[int, str], ...]


def generate(
    operations: tuple[Operation, ...],
    fold: FoldOperation | None,
    shape: Shape,
    limit: int,
    first: int = 0,
    timestamped: Container[int] = (),
    leaves: bool = False,
    counts: bool = False,
) -> Generated:
    """Return the source of a function `run(values, t, w, p, s)` for the operations from `first` on.

    The function emits bundles of about `limit` elements.  Its globals are: `f<i>`, each operation's function;
    `a<i>_<j>`, its constant arguments; `B`, a dict of the arguments that change from bundle to bundle; and those that
    `operations.py` and `executor.py` add.

    Args:
      timestamped: the operations whose `TimestampedValue`s stay in the loop.
      leaves: True if the loop is left when `over` is true; then the function returns the number of elements that it has
        not reached.
      counts: True if it calls `passed(i, n, element)` for each operation `i` after the first: the number of elements
        that have reached the operation, and the last of them.
    """
    lines = Lines()
    with lines.block("def run(values, t, w, p, s):"):
        _Generator(lines, operations, fold, shape, limit, first, timestamped, leaves, counts).write()
    lines.text[0] = f"def run({', '.join(['values, t, w, p, s', *lines.bound])}):"
    return Generated("\n".join(lines.text), tuple(lines.about))


class _Generator:
    def __init__(
        self,
        lines: Lines,
        operations: tuple[Operation, ...],
        fold: FoldOperation | None,
        shape: Shape,
        limit: int,
        first: int,
        timestamped: Container[int],
        leaves: bool,
        counts: bool,
    ) -> None:
        self.out = lines
        self.leaves = leaves
        self.counts = counts
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
        self.columns = Columns(t, w, p, s, varying, shape.one_window)
        self.pends: list[int] = []
        # By operation, the number of elements that have reached it and the last of them, as they are after the loop.
        self.counted: dict[int, tuple[str, str]] = {}
        # The line, depth and input of the last operation.
        self.begun = 0, 0, ""
        # The assignments of key and value, if the last operation is their expression.
        self.pair: str | None = None
        self.certain_pair = False
        self.flat = False
        # False if a function may still hold the elements, so that they are copied where they wait.
        self.unshared = True
        # True if the value of each folded pair is a constant.
        self.is_constant = False

    def write(self) -> None:
        out = self.out
        start = len(out.text)
        value = f"v{self.first}"
        values = "it" if self.leaves else "values"
        loop = f"for {value}, {', '.join(f'{n}0' for n in self.inputs)} in zip({values}, {', '.join(self.inputs)}):"
        with out.block(loop if self.inputs else f"for {value} in {values}:"):
            depth = out.depth
            if self.leaves:
                with out.block(f"if {out.bind('over')}:"):
                    out.line("left = it.__length_hint__() + 1")
                    out.line("break")
            for i, operation in list(enumerate(self.operations))[self.first :]:
                out.operation, out.input = i, value
                last = i == len(self.operations) - 1
                if self.counts and i > self.first:
                    self._count(i, value)
                self.begun = len(out.text), out.depth, value
                if isinstance(operation, WindowOperation):
                    assign_windows(out, self.columns, i, operation, value, self.fold if last else None)
                else:
                    value = self._pardo(i, operation, value, last)
            out.operation, out.input = len(self.operations), value
            if self.fold is not None:
                self._unpack(value)
                self._unshare_folded()
                fold_pair(out, self.columns, self.fold)
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
        for i, (number, element) in self.counted.items():
            out.line(f"passed({i}, {number}, {element})")
        if self.leaves:
            out.line("return left")
            out.before_loop("it = iter(values); left = 0")
        head = [(f"P{i} = []; pend{i} = P{i}.append; k{i} = None", (-1, "v0")) for i in self.pends]
        for code, about in reversed([*head, *out.before]):
            out.text.insert(start, "    " + code)
            out.about.insert(start, about)

    def _count(self, i: int, value: str) -> None:
        """Count the elements that reach operation `i`, unless as many have reached the one before it."""
        out, (line, depth, before) = self.out, self.begun
        all_values = "len(values) - left" if self.leaves else "len(values)"
        number, element = self.counted.get(i - 1, (all_values, value))
        if out.depth == depth and not any(text.endswith("continue") for text in out.text[line:]):
            # The last element is in its variable after the loop.
            self.counted[i] = number, element if value == before else value
            out.before_loop(f"{value} = None")
        else:
            self.counted[i] = f"n{i}", f"e{i}"
            out.before_loop(f"n{i} = 0; e{i} = None")
            out.line(f"n{i} += 1; e{i} = {value}")

    # ParDo

    def _pardo(self, i: int, operation: ParDoOperation, value: str, last: bool) -> str:
        out, fn = self.out, operation.fn
        self.pair, self.certain_pair = None, False
        if operation.observes_window:
            explode(out, self.columns, i, value)
        if isinstance(fn, ExpressionDoFn):
            return self._expression(i, fn, value, last)
        star = "*" if isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn)) else ""
        call = f"{out.bind(f'f{i}')}({self._arguments(i, operation, value, star)})"
        if isinstance(fn, FilterDoFn) and not operation.remembers:
            out.line(f"if not {call}: continue")
            return value
        if isinstance(fn, TimestampDoFn):
            self._timestamp(i, call)
            return value
        if operation.decides_signs:
            self.columns.s = "1"
        self.unshared = False
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
        if isinstance(fn, FlatMapDoFn) and fn.fn in (str.split, str.splitlines):
            self.unshared = True
            out.line(f"for {result} in {call}:")
            out.depth += 1
            return result
        out.line(f"r{i} = {call}")
        check = "function_type" if isinstance(fn, FlatMapDoFn) else "iterable_type"
        out.line(f"if type(r{i}) is not q{i}: q{i} = {check}(r{i})")
        out.before_loop(f"q{i} = None")
        out.line(f"if r{i} is None: continue")
        out.line(f"for {result} in r{i}:")
        out.depth += 1
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
                key, item = tree.body.elts
                if isinstance(item, ast.Constant):
                    self.is_constant = True
                    self.out.before_loop(f"x = {item.value!r}")
                    self.pair = f"k = {ast.unparse(key)}"
                else:
                    self.pair = f"k = {ast.unparse(key)}; x = {ast.unparse(item)}"
                return value
        result = f"v{i + 1}"
        self.out.line(f"{result} = {ast.unparse(tree)}")
        if not fn.plain:
            self._look_at(i, result)
        return result

    def _timestamp(self, i: int, call: str) -> None:
        out = self.out
        t = f"t{i + 1}"
        out.line(f"at = {call}")
        out.line(f"{t} = at * 1000000 if type(at) is int else micros_of(at)")
        out.line(f"if not {MIN_MICROS} <= {t} <= {MAX_MICROS}: out_of_range(at)")
        self.columns.timestamp_in(t)

    def _look_at(self, i: int, result: str) -> None:
        out, columns = self.out, self.columns
        operation = self.operations[i]
        if isinstance(operation, ParDoOperation) and (operation.fn.retracts or operation.decides_signs):
            # In their order, so that the retraction of a row comes before the row that replaces it.
            with out.block(f"if P{i}:"):
                self._pend(i, result)
        if i not in self.timestamped:
            self._set_special_aside(i, result)
            return
        before = columns.t
        keeps_seconds = before not in columns.varying and self._is_folded_by_seconds(i)
        with out.block(f"if type({result}) is {out.bind('TIMESTAMPED')}:"):
            out.line(f"at = {result}.at; {result} = {result}.value")
            if not keeps_seconds:
                out.line(micros_of_at(f"t{i + 1}", "at"))
        with out.block("else:"):
            out.line(f"at = ({before},)" if keeps_seconds else f"t{i + 1} = {before}")
            self._set_special_aside(i, result)
        columns.timestamp_in(f"t{i + 1}")
        if keeps_seconds:
            columns.at = "at"

    def _is_folded_by_seconds(self, i: int) -> bool:
        """Return whether all that follows operation `i` is a fold that finds its cells by windows of whole seconds."""
        if self.fold is None or len(self.operations) != i + 2 or not isinstance(self.operations[-1], WindowOperation):
            return False
        return by_seconds(self.operations[-1].window_fn, self.fold) is not None

    def _set_special_aside(self, i: int, result: str) -> None:
        out = self.out
        self.pends.append(i)
        with out.block(f"if type({result}) is not k{i}:"):
            with out.block(f"if type({result}) in SPECIAL:"):
                self._pend(i, result)
            out.line(f"k{i} = type({result})")

    def _pend(self, i: int, result: str) -> None:
        out, operation = self.out, self.operations[i]
        yields_bundles = isinstance(operation, ParDoOperation) and operation.fn.yields_bundles
        limit = min(self.limit, _BATCHES) if yields_bundles else self.limit
        out.line(f"pend{i}((unshared({result}), {self.columns.all}))")
        with out.about_nothing():
            out.line(f"if len(P{i}) >= {limit}: specials({i}, P{i})")
        out.line("continue")

    def _arguments(self, i: int, operation: ParDoOperation, value: str, star: str) -> str:
        c = self.columns
        by_marker = {
            "ElementParam": f"{star}{value}",
            "TimestampParam": f"of_micros({c.t})",
            "WindowParam": f"{c.w}[0]" if c.w in c.varying else f"{c.w}_only",
            "WindowedValueParam": f"windowed_value({value}, {c.t}, {c.w}, {c.p})",
            "PaneInfoParam": c.p,
            "KeyParam": f"{value}[0]",
            "SignParam": c.s,
        }
        arguments = []
        for j, argument in enumerate(operation.arguments):
            name = f"a{i}_{j}"
            if argument.marker is not None and argument.marker.name in by_marker:
                if argument.marker is DoFn.WindowParam and c.w not in c.varying:
                    self.out.before_loop(f"{c.w}_only = {c.w}[0]")
                # Elements are unpacked only as the first argument.
                named_element = argument.keyword and argument.marker.name == "ElementParam"
                code = value if named_element else by_marker[argument.marker.name]
            elif argument.marker is not None:
                self.out.before_loop(f"{name} = B['{name}']")
                code = name
            elif isinstance(argument.value, graph.SideInputArgument):
                self.out.before_loop(f"{name} = B['{name}']")
                code = f"{name}({c.w}[0])" if argument.value.index in operation.windowed_views else name
            else:
                code = name
            arguments.append(f"{argument.keyword}={code}" if argument.keyword else code)
        return ", ".join(arguments)

    # The end of the stage

    def _append(self, value: str) -> None:
        out, columns = self.out, self.columns
        out.before_loop("o = []")
        self.varying = [n for n in ("t", "w", "p", "s") if getattr(columns, n) in columns.varying]
        out.before_loop(*(f"o{n} = []" for n in self.varying))
        self._unshare(value)
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

    def _unshare(self, value: str) -> None:
        """Copy an output that a function may change later."""
        if not self.unshared:
            operation, self.out.operation = self.out.operation, len(self.operations) - 1
            unshare(self.out, value)
            self.out.operation = operation

    def _unshare_folded(self) -> None:
        """Copy a value that a function may change after it was added to a group."""
        if not self.unshared and not self.is_constant:
            with self.out.block(f"if type(x) not in {self.out.bind('IMMUTABLE')}:"):
                self.out.line("x = unshared(x)")

    def _unpack(self, value: str) -> None:
        """Assign the key to `k` and the value to `x`."""
        out = self.out
        if self.pair is not None:
            out.line(self.pair)
            return
        if not self.certain_pair:
            out.before_loop("kp = None")
            out.line(f"if type({value}) is not kp: kp = pair_type({value})")
        out.line(f"k, x = {value}")
