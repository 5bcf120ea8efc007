"""Generates the loop of a stateful ParDo over the elements of a bundle.

One function is generated for each shape of bundle, with the code of what the DoFn asks for only.  That of a DoFn with
one state, for a bundle of one window, is in essence

    def run(values, ts, ws, ps, ss):
        c0, = enter(ws[0])
        state0 = new_state0(spec0, c0, None)
        o, ot = at(ws, ps, ss)
        for e, t in zip(values, ts):
            k = e[0]
            state0.key = k
            for x in method(e, state0):
                o.append(x)
                ot.append(t)

An accessor of a state serves one element after the other, unless the DoFn keeps it beyond the call.  Whether it does,
whether an output has a timestamp of its own, and whether a bundle is full is checked for each element, unless the
method's bytecode shows that there is no need.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isgeneratorfunction
from sys import getrefcount
from typing import Any, Protocol

from ....sdk.coders.coded_key import VALID_TYPES
from ....sdk.coders.key_encoding import CodedKey
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, Windows
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....sdk.elements.element_wrappers import SPECIAL_TYPES
from ....sdk.userstate.store import StateColumn
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from ..stages.codegen import Shape
from ..stages.operations import iterable_type
from ..stages.output_buffer import OutputRows
from ..stages.plain_results import yields_plain
from ..stages.source_lines import Lines, unshare
from .callbacks import KeyedTimers, MethodCode, TimerOwner, compiled
from .plain_methods import yields_once


class LoopOwner(TimerOwner, Protocol):
    """The executor of the ParDo.

    Attributes:
      over: true when the loop is to be left; None if it never is.
      dropped: the number of late elements.
      is_overdue: True if a timer was set to a time that has passed.
      rows: its outputs.
    """

    over: Any
    dropped: int
    is_overdue: bool
    rows: OutputRows

    def enter(self, window: BoundedWindow) -> tuple[StateColumn, ...] | None:
        """Return the columns of a window's states, in the order of the parameters; None if the window has expired."""

    def check_keys(self, elements: list[Any]) -> None:
        """Raise an error if one of the elements has no valid key."""

    def fire_due(self) -> None:
        """Fire all due timers."""

    def emit_special(self, output: Any, micros: int, windows: Windows, pane: PaneInfo, sign: int) -> None:
        """Emit an output that is a TimestampedValue or the like."""


class ElementLoop:
    """The generated loops of one executor.

    Args:
      method: the call of the DoFn's `process`.
      sets_timers: True if it may set timers.
      marks_seen: True if the last column of `enter` marks the keys that have been seen in the window.
      codes_keys: True if keys may be in coded form.
      decides_signs: True if outputs don't have the sign of their element.
    """

    def __init__(
        self,
        owner: LoopOwner,
        method: MethodCode,
        sets_timers: bool,
        marks_seen: bool,
        codes_keys: bool,
        decides_signs: bool,
    ) -> None:
        self._owner = owner
        self._method = method
        self._sets_timers = sets_timers
        self._marks_seen = marks_seen
        self._codes_keys = codes_keys
        self._where = f"own, p, {'1' if decides_signs else 's'}"
        self._by_shape: dict[Shape, Callable[..., int]] = {}

    def run(self, bundle: Bundle) -> int:
        """Process a bundle; return the number of elements that were not reached.

        Raises `TypeError` or `ValueError` for an element that is no pair.
        """
        shape = Shape.of(bundle)
        run = self._by_shape.get(shape)
        if run is None:
            run = self._by_shape[shape] = self._function(shape)
        return run(bundle.values, bundle.timestamps, bundle.windows, bundle.panes, bundle.signs)

    def element_of(self, error: BaseException) -> Any:
        """Return the element that was processed when an error was raised; None if there was none."""
        codes = {run.__code__ for run in self._by_shape.values()}
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code not in codes:
            tb = tb.tb_next
        return None if tb is None else tb.tb_frame.f_locals.get("e")

    def _function(self, shape: Shape) -> Callable[..., int]:
        owner = self._owner
        names: dict[str, Any] = {
            **self._method.names,
            "CodedKey": CodedKey,
            "IMMUTABLE": IMMUTABLE,
            "KeyedTimers": KeyedTimers,
            "SPECIAL": SPECIAL_TYPES,
            "VALID_TYPES": VALID_TYPES,
            "at": owner.rows.at,
            "check_keys": owner.check_keys,
            "enter": owner.enter,
            "fire_due": owner.fire_due,
            "flush": owner.rows.flush,
            "iterable_type": iterable_type,
            "over": owner.over,
            "owner": owner,
            "references": getrefcount,
            "special": owner.emit_special,
            "tag": "",
            "unshared": defensive_copy,
        }
        exec(compiled(self._source(shape)), names)
        return names["run"]  # type: ignore[no-any-return]

    def _source(self, shape: Shape) -> str:
        out, states = Lines(), self._method.specs
        columns = {"t": shape.timestamps, "windows": shape.windows, "p": shape.panes, "s": shape.signs}
        varying = [name for name, varies in columns.items() if varies]
        # Unless timers fire in between, a window that is open before the loop doesn't expire in it.
        one_window = shape.one_window and not self._sets_timers
        one_place = one_window and not shape.panes and not shape.signs
        # Outputs of one place and one timestamp are given it when they are flushed.
        same_time = one_place and not shape.timestamps
        with out.block(f"def run(values, {', '.join(f'{name}s' for name in columns)}):"):
            out.line("q = kind = key_type = None; is_checked = False; near = {}; it = iter(values)")
            out.line("; ".join(f"{name} = {name}s" for name in columns if name not in varying) or "pass")
            if one_window:
                out.line("own = windows; w = own[0]; found = enter(w)")
                with out.block("if found is None:"):
                    out.line("owner.dropped += len(values)")
                    out.line("return 0")
                self._unpack(out)
            for j in states:
                out.line(f"state{j} = new_state{j}(spec{j}, {f'c{j}' if one_window else 'None'}, None)")
                out.line(f"alone = references(state{j})")
            if one_place:
                self._place(out)
            items = f"zip({', '.join(['it', *(f'{name}s' for name in varying)])})" if varying else "it"
            with out.block(f"for {', '.join(['e', *varying])} in {items}:"):
                if self._owner.over is not None:
                    with out.block("if over:"):
                        self._complete(out, same_time)
                        out.line("return it.__length_hint__() + 1")
                out.line("k, v = e")
                # Pairs whose keys are strings or the like need no check.
                with out.block("if type(k) is not key_type or type(e) is not tuple:"):
                    out.line("key_type = type(k)")
                    with out.block("if not is_checked and (key_type not in VALID_TYPES or type(e) is not tuple):"):
                        out.line("check_keys(values); is_checked = True")
                if self._codes_keys:
                    out.line("if type(k) is CodedKey: e = (k.key, v)")
                if not one_window:
                    out.line("whole = e")
                    out.line("for w in windows:")
                    out.depth += 1
                    # In each window the element is another one, which the method may change.
                    out.line("if len(windows) > 1: e = unshared(whole)")
                    out.line("try: found = near[w]")
                    out.line("except KeyError: found = near[w] = enter(w)")
                    with out.block("if found is None:"):
                        out.line("owner.dropped += 1")
                        out.line("continue")
                    self._unpack(out)
                    out.line("own = windows if len(windows) == 1 else (w,)")
                if self._marks_seen:
                    out.line("if k not in seen.values: seen.put(k, True)")
                for j in states:
                    if j in self._method.lasting:
                        out.line(f"if references(state{j}) > alone: state{j} = new_state{j}(spec{j}, c{j}, k)")
                    out.line(f"state{j}.key = k")
                    if not one_window:
                        out.line(f"state{j}.column = c{j}")
                if self._sets_timers:
                    out.line("setter = KeyedTimers(owner, k, w, t, t, p)")
                self._call(out, one_place, same_time)
            out.depth = 1
            self._complete(out, same_time)
            out.line("return 0")
        out.text[0] = f"def run(values, {', '.join([*(f'{name}s' for name in columns), *out.bound])}):"
        return "\n".join(out.text)

    def _unpack(self, out: Lines) -> None:
        columns = [*(f"c{j}" for j in self._method.specs), *(["seen"] if self._marks_seen else [])]
        if columns:
            out.line(f"{', '.join(columns)}, = found")

    def _place(self, out: Lines) -> None:
        out.line(f"o, ot = {out.bind('at')}({self._where})")

    def _complete(self, out: Lines, same_time: bool) -> None:
        if same_time:
            out.line("ot += [t] * (len(o) - len(ot))")

    def _call(self, out: Lines, one_place: bool, same_time: bool) -> None:
        if isgeneratorfunction(self._method.names["method"]):
            if not one_place:
                self._place(out)
            self._outputs(out, self._method.code, one_place, same_time)
        else:
            out.line(f"r = {self._method.code}")
            with out.block("if r is not None:"):
                out.line("if type(r) is not q: q = iterable_type(r)")
                if not one_place:
                    self._place(out)
                self._outputs(out, "r", one_place, same_time)
        if self._sets_timers:
            with out.block("if owner.is_overdue:"):
                # An error of a timer's method is not one of the element.
                out.line("element, e = e, None")
                out.line("fire_due()")
                out.line("e = element; near.clear()")

    def _outputs(self, out: Lines, iterable: str, one_place: bool, same_time: bool) -> None:
        method = self._method.names["method"]
        with out.block(f"for x in {iterable}:"):
            if not yields_plain(method):
                with out.block("if type(x) is not kind:"):
                    with out.block("if type(x) in SPECIAL:"):
                        self._complete(out, same_time)
                        out.line(f"special(x, t, {self._where})")
                        self._place(out)
                        out.line("continue")
                    out.line("kind = type(x)")
            # The DoFn may hold an output, or have written it to a state.
            unshare(out, "x")
            out.line("o.append(x)")
            if not same_time:
                out.line("ot.append(t)")
            # One output for each element of a bundle fits into a bundle.
            if one_place and yields_once(method):
                return
            with out.block(f"if len(o) >= {BUNDLE_SIZE}:"):
                self._complete(out, same_time)
                out.line("flush()")
                self._place(out)
