"""The kernel of a fused stage.

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
return a `TimestampedValue`, a `WindowedValue` or a `TaggedOutput`: the type of each result is checked.  Such results
are collected in a list and go through the rest of the stage separately.  (If a function returns mostly
`TimestampedValue`s, these are unwrapped in the loop.)  And where the stage ends in a grouping, the fold into the
grouping's cells is part of the loop.

While a page shows the run, some bundles go through a function that also counts the elements between its operations.
And some, the first one among them, go through one that times its first elements (`StepTimes`):

        it = iter(values)
        for v0 in first(it):
            mark(0)
            v1 = f0(v0)
            mark(1)
            ...
        for v0 in rest(it):
            ...
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import CodeType
from typing import Any

from ....frozen import frozen
from ....sdk import graph
from ....sdk.dofn.arrangement import Applied, ArrangementDoFn, Constant, Part, Term
from ....sdk.dofn.dofn import (
    DoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
    TimestampDoFn,
)
from ....sdk.elements.bundle import Shape
from ....sdk.user_code.step_slot import StepTimes
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from .descriptions import FoldOperation, Operation, ParDoOperation, WindowOperation
from .runtime import NAMES, names_of, names_of_fold
from .source import Columns, Lines, function, unshare
from .windows import assign_windows, explode, fold_pair

# The largest number of a function's output batches, each of which may be large, that are set aside.
_BATCHES = 64


@frozen
class StageDescription:
    """The description of a stage's kernel, for bundles of one shape.

    Attributes:
      label: the stage's label.
      operations: all operations of the stage.
      fold: the fold at its end; None if it has outputs.
      limit: the kernel emits bundles of about so many elements.
      first: the place of the kernel's first operation.
      timestamped: the operations whose `TimestampedValue`s stay in the loop.
      counts: True if it calls `passed(i, n, element)` for each operation `i` after the first: the number of elements
        that have reached the operation, and the last of them.
      is_timed: True if its first elements are timed.
    """

    label: str
    operations: tuple[Operation, ...]
    fold: FoldOperation | None
    shape: Shape
    limit: int
    first: int = 0
    timestamped: Container[int] = ()
    counts: bool = False
    is_timed: bool = False


@frozen
class StageKernel:
    """The kernel of a stage: the fused steps that a thread is in while it runs.

    Attributes:
      label: the stage's label.
      run: the function `run(values, timestamps, windows, panes, signs)`.
      source: its source.
      lines: for each line of the source, the index of its operation (the fold's is the number of operations; -1 for
        none) and the variable of the operation's input.
      labels: the labels of its operations, and of the fold.
      times: how the time of the kernel is split.
    """

    label: str
    run: Callable[..., None]
    source: str
    lines: tuple[tuple[int, str], ...]
    labels: tuple[str, ...]
    times: StepTimes

    @property
    def code(self) -> CodeType:
        """The code of `run`."""
        return self.run.__code__

    def label_at(self, line: int) -> str:
        """Return the label of the operation, or of the fold, that a line belongs to; the stage's for none."""
        index, _ = self.lines[line - 1]
        return self.label if index < 0 else self.labels[index]


def stage_kernel(description: StageDescription, times: StepTimes, names: Mapping[str, Any]) -> StageKernel:
    """Return the kernel of a stage.

    Args:
      times: how its time is split.
      names: what it calls: `emit`, `specials`, and, as the description says, `cells`, `passed` and `memory<i>`; and
        `B`, a dict of the arguments that change from bundle to bundle.
    """
    lines = Lines()
    with lines.block("def run(values, t, w, p, s):"):
        generator = _Generator(lines, description)
        generator.write()
    lines.text[0] = f"def run({', '.join(['values, t, w, p, s', *lines.bound])}):"
    operations, fold = description.operations, description.fold
    known = {**NAMES, **names, **generator.names}
    if description.is_timed:
        known.update(first=times.first, items=times.items, mark=times.mark, rest=times.rest)
    if fold is not None:
        known.update(names_of_fold(fold))
    for i, operation in enumerate(operations):
        known.update(names_of(i, operation))
    source = "\n".join(lines.text)
    run = function(source, known, f"<penstock stage {description.label}>")
    return StageKernel(description.label, run, source, tuple(lines.about), labels_of(operations, fold), times)


def labels_of(operations: tuple[Operation, ...], fold: FoldOperation | None) -> tuple[str, ...]:
    """Return the labels of the steps of a kernel: those of its operations, and of the fold, or the last one again."""
    labels = tuple(operation.label for operation in operations)
    return (*labels, labels[-1] if fold is None else fold.label)


class _Generator:
    def __init__(self, lines: Lines, description: StageDescription) -> None:
        self.out = lines
        self.counts = description.counts
        self.timestamped = description.timestamped
        self.first = description.first
        self.operations = description.operations
        self.fold = description.fold
        self.limit = description.limit
        self.shape = description.shape
        self.is_timed = description.is_timed
        # The constants and functions of arrangements.
        self.names: dict[str, Any] = {}
        self.pends: dict[int, None] = {}
        # By operation, the number of elements that have reached it and the last of them, as they are after the loop.
        self.counted: dict[int, tuple[str, str]] = {}
        self._begin_loop()

    def _begin_loop(self) -> None:
        shape = self.shape
        names = {"t": shape.timestamps, "w": shape.windows, "p": shape.panes, "s": shape.signs}
        self.inputs = [name for name, varies in names.items() if varies]
        current = {name: f"{name}0" if varies else name for name, varies in names.items()}
        varying = {current[name] for name in self.inputs}
        t, w, p, s = current.values()
        self.columns = Columns(t, w, p, s, varying, shape.one_window)
        # The line, depth and input of the last operation.
        self.begun = 0, 0, ""
        # The assignments of key and value, if the last operation arranges them.
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
        elements = f"zip(values, {', '.join(self.inputs)})" if self.inputs else "values"
        if self.is_timed:
            out.line(f"it = iter({elements})")
            self._loop("first(it)")
            self.is_timed, elements = False, "rest(it)"
            self._begin_loop()
        self._loop(elements)
        if self.fold is None:
            with out.block("if o:"):
                out.line(self._emit())
        for i in self.pends:
            with out.block(f"if P{i}:"):
                out.line(f"specials({i}, P{i})")
        for i, (number, element) in self.counted.items():
            out.line(f"passed({i}, {number}, {element})")
        head = [(f"P{i} = []; pend{i} = P{i}.append; k{i} = None", (-1, "v0")) for i in self.pends]
        for code, about in reversed([*head, *out.before]):
            out.text.insert(start, "    " + code)
            out.about.insert(start, about)

    def _loop(self, elements: str) -> None:
        """Write the loop over some elements, each with its varying columns."""
        out = self.out
        value = f"v{self.first}"
        with out.block(f"for {', '.join([value, *(f'{n}0' for n in self.inputs)])} in {elements}:"):
            depth = out.depth
            for i, operation in list(enumerate(self.operations))[self.first :]:
                out.operation, out.input = i, value
                last = i == len(self.operations) - 1
                if self.counts and i > self.first:
                    self._count(i, value)
                self._mark(i)
                self.begun = len(out.text), out.depth, value
                if isinstance(operation, WindowOperation):
                    assign_windows(out, self.columns, i, operation, value, self.fold if last else None)
                else:
                    value = self._pardo(i, operation, value, last)
            out.operation, out.input = len(self.operations), value
            if self.fold is not None:
                self._mark(len(self.operations))
                self._unpack(value)
                self._unshare_folded()
                fold_pair(out, self.columns, self.fold)
            else:
                self._append(value)
            out.depth = depth
        out.operation = -1

    def _mark(self, i: int) -> None:
        """Note that operation `i` begins, if elements are timed."""
        if self.is_timed:
            self.out.line(f"mark({i})")

    def _count(self, i: int, value: str) -> None:
        """Count the elements that reach operation `i`, unless as many have reached the one before it."""
        out, (line, depth, before) = self.out, self.begun
        number, element = self.counted.get(i - 1, ("len(values)", value))
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
        if isinstance(fn, ArrangementDoFn):
            return self._arrangement(i, fn, value, last)
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
        # A generator computes its outputs one by one.
        out.line(f"for {result} in items({i}, r{i}):" if self.is_timed else f"for {result} in r{i}:")
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

    def _arrangement(self, i: int, fn: ArrangementDoFn, value: str, last: bool) -> str:
        term = fn.term
        if type(term) is tuple and len(term) == 2:
            self.certain_pair = True
            if last and self.fold is not None:
                key, item = term
                self.pair = f"k = {self._term(i, key, value)}"
                if type(item) is Constant:
                    self.is_constant = True
                    self.out.before_loop(f"x = {self._term(i, item, value)}")
                else:
                    self.pair += f"; x = {self._term(i, item, value)}"
                return value
        result = f"v{i + 1}"
        self.out.line(f"{result} = {self._term(i, term, value)}")
        if not fn.is_plain:
            self._look_at(i, result)
        return result

    def _term(self, i: int, term: Term, value: str) -> str:
        if isinstance(term, tuple):
            return "(" + "".join(f"{self._term(i, part, value)}, " for part in term) + ")"
        if isinstance(term, Part):
            for step in term.path:
                value += f"[{step}]" if isinstance(step, int) else f".{step}"
            return value
        name = self.out.bind(f"c{i}_{len(self.names)}")
        self.names[name] = term.fn if isinstance(term, Applied) else term.value
        return f"{name}({value})" if isinstance(term, Applied) else name

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
        t = f"t{i + 1}"
        with out.block(f"if type({result}) is {out.bind('TIMESTAMPED')}:"):
            out.line(f"at = {result}.at; {result} = {result}.value")
            out.line(f"{t} = at * 1000000 if type(at) is int else at[0]")
        with out.block("else:"):
            out.line(f"{t} = {columns.t}")
            self._set_special_aside(i, result)
        columns.timestamp_in(t)

    def _set_special_aside(self, i: int, result: str) -> None:
        out = self.out
        self.pends[i] = None
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
