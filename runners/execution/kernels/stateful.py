"""The kernels of a stateful ParDo: its loop over the elements of a bundle, and the calls of its callbacks.

A loop is generated for each shape of bundle, with the code of what the DoFn asks for only.  That of a DoFn with
one state, for a bundle of one window, is in essence

    def run(values, elements, ts, ws, ps, ss):
        c0, = enter(ws[0])
        o, ot = at(ws, ps, ss)
        for e, t in zip(elements, ts):
            k = e[0]
            state0 = new_state0(); state0.spec = spec0; state0.column = c0; state0.key = k
            for x in method(e, state0):
                o.append(x)
                ot.append(t)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isgeneratorfunction
from typing import Any

import attrs

from ....frozen import frozen
from ....sdk import graph
from ....sdk.coders.coded_key import VALID_TYPES, plain
from ....sdk.coders.key_encoding import CodedKey
from ....sdk.dofn.signature import Argument
from ....sdk.elements.bundle import BUNDLE_SIZE, Shape
from ....sdk.elements.defensive_copy import IMMUTABLE, defensive_copy
from ....sdk.elements.element_wrappers import SPECIAL_TYPES
from ....sdk.userstate.state_spec import StateSpec
from ....sdk.userstate.timer import RuntimeTimer
from ....windowing.timestamp import Timestamp
from .runtime import iterable_type, windowed_value
from .source import Lines, function, unshare

# The variables of generated code: the element, key, window, microseconds (of the element, or of the timer), pane, sign,
# the timer's tag, and the `KeyedTimers`.
_PARAMETERS = "e, k, w, t, p, s, tag, setter"

_BY_MARKER = {
    "ElementParam": "e",
    "TimestampParam": "of_micros(t)",
    "WindowParam": "w",
    "WindowedValueParam": "windowed_value(e, t, (w,), p)",
    "PaneInfoParam": "p",
    "KeyParam": "k",
    "SignParam": "s",
    "DynamicTimerTagParam": "tag",
}

_FILE = "<penstock keyed call>"


@frozen
class MethodDescription:
    """The call of a stateful DoFn's method.

    Attributes:
      method: the method.
      arguments: its arguments.
      windowed_views: indices of the side inputs whose view depends on the window.
      specs: the worker's own specs of the states, by the index of the argument.
      codes_keys: True if keys may be in coded form.
    """

    method: Callable[..., Any]
    arguments: tuple[Argument, ...]
    windowed_views: frozenset[int]
    specs: Mapping[int, StateSpec] = attrs.field(eq=False)
    codes_keys: bool


@frozen
class LoopDescription:
    """The loop of a stateful ParDo over the elements of a bundle.

    Attributes:
      method: the call of the DoFn's `process`.
      sets_timers: True if it may set timers.
      marks_seen: True if the last column of `enter` marks the keys that have been seen in the window.
      decides_signs: True if outputs don't have the sign of their element.
      shape: the shape of the bundle.
    """

    method: MethodDescription
    sets_timers: bool
    marks_seen: bool
    decides_signs: bool
    shape: Shape | None = None


def call_kernel(
    method: MethodDescription, by_bundle: dict[str, Any], column: Callable[[Any, str, Any], Any]
) -> Callable[..., Any]:
    """Return a function `call(e, k, w, t, p, s, tag, setter)` that calls a method with its arguments.

    Args:
      by_bundle: by name, the arguments that may change from bundle to bundle (`StageExecutor.bundle_arguments`).
      column: returns the values of a window's state by the state's name, for a call with a key.
    """
    lines = [f"def run({_PARAMETERS}):"]
    lines += [f"    {_accessor(j, f'column(w, spec{j}.name, k)')}" for j in method.specs]
    lines += [f"    return {_call(method)}"]
    return function("\n".join(lines), {**_names(method, by_bundle), "column": column}, _FILE)


def loop_kernel(
    description: LoopDescription, by_bundle: dict[str, Any], names: Mapping[str, Any]
) -> Callable[..., None]:
    """Return a function `run(values, elements, timestamps, windows, panes, signs)` for a bundle of the described shape.

    Its loop takes the values from `elements`, an iterable of them.

    Args:
      names: what it calls: the members of `LoopOwner` and its outputs, and `KeyedTimers`.
    """
    known = {
        **_names(description.method, by_bundle),
        "CodedKey": CodedKey,
        "IMMUTABLE": IMMUTABLE,
        "SPECIAL": SPECIAL_TYPES,
        "VALID_TYPES": VALID_TYPES,
        "iterable_type": iterable_type,
        "tag": "",
        "unshared": defensive_copy,
        **names,
    }
    return function(_Loop(description).source(), known, _FILE)


def _names(method: MethodDescription, by_bundle: dict[str, Any]) -> dict[str, Any]:
    names: dict[str, Any] = {
        "method": method.method,
        "B": by_bundle,
        "of_micros": Timestamp.of_micros,
        "windowed_value": windowed_value,
        "RuntimeTimer": RuntimeTimer,
        "plain": plain,
    }
    for j, argument in enumerate(method.arguments):
        names[f"a0_{j}"] = argument.value
    for j, spec in method.specs.items():
        names[f"spec{j}"], names[f"new_state{j}"] = spec, spec.runtime
    return names


def _call(method: MethodDescription) -> str:
    """Return the call of a method, over the variables of `_PARAMETERS` and `state<j>` for each state."""
    codes = []
    for j, argument in enumerate(method.arguments):
        marker: Any = argument.marker
        name = f"a0_{j}"
        if marker is not None and marker.name in _BY_MARKER:
            code = "plain(k)" if method.codes_keys and marker.name == "KeyParam" else _BY_MARKER[marker.name]
        elif j in method.specs:
            code = f"state{j}"
        elif marker is not None and marker.name == "TimerParam":
            code = f"RuntimeTimer({marker.timer_spec.name!r}, setter)"
        elif marker is not None:
            code = f"B[{name!r}]"
        elif isinstance(argument.value, graph.SideInputArgument):
            code = f"B[{name!r}](w)" if argument.value.index in method.windowed_views else f"B[{name!r}]"
        else:
            code = name
        codes.append(f"{argument.keyword}={code}" if argument.keyword else code)
    return f"method({', '.join(codes)})"


def _accessor(j: int, column: str) -> str:
    """Return the statements that make the accessor of a state."""
    return f"state{j} = new_state{j}(); state{j}.spec = spec{j}; state{j}.column = {column}; state{j}.key = k"


class _Loop:
    def __init__(self, description: LoopDescription) -> None:
        assert description.shape is not None
        self._shape = description.shape
        self._method = description.method
        self._sets_timers = description.sets_timers
        self._marks_seen = description.marks_seen
        self._where = f"own, p, {'1' if description.decides_signs else 's'}"
        self._call_of_method = _call(description.method)

    def source(self) -> str:
        """Return the source of the loop."""
        out, states = Lines(), self._method.specs
        shape = self._shape
        columns = {"t": shape.timestamps, "windows": shape.windows, "p": shape.panes, "s": shape.signs}
        varying = [name for name, varies in columns.items() if varies]
        # Unless timers fire in between, a window that is open before the loop doesn't expire in it.
        one_window = shape.one_window and not self._sets_timers
        same_properties = one_window and not shape.panes and not shape.signs
        with out.block(f"def run(values, elements, {', '.join(f'{name}s' for name in columns)}):"):
            out.line("q = kind = key_type = None; is_checked = False; by_window = {}")
            out.line("; ".join(f"{name} = {name}s" for name in columns if name not in varying) or "pass")
            if one_window:
                out.line("own = windows; w = own[0]; found = enter(w)")
                with out.block("if found is None:"):
                    out.line("owner.dropped += len(values)")
                    out.line("return")
                self._unpack(out)
            if same_properties:
                self._buffers(out)
            items = f"zip({', '.join(['elements', *(f'{name}s' for name in varying)])})" if varying else "elements"
            with out.block(f"for {', '.join(['e', *varying])} in {items}:"):
                out.line("k, v = e")
                # Pairs whose keys are strings or the like need no check.
                with out.block("if type(k) is not key_type or type(e) is not tuple:"):
                    out.line("key_type = type(k)")
                    with out.block("if not is_checked and (key_type not in VALID_TYPES or type(e) is not tuple):"):
                        out.line("check_keys(values); is_checked = True")
                if self._method.codes_keys:
                    out.line("if type(k) is CodedKey: e = (k.key, v)")
                if not one_window:
                    out.line("whole = e")
                    out.line("for w in windows:")
                    out.depth += 1
                    # In each window the element is another one, which the method may change.
                    out.line("if len(windows) > 1: e = unshared(whole)")
                    out.line("try: found = by_window[w]")
                    out.line("except KeyError: found = by_window[w] = enter(w)")
                    with out.block("if found is None:"):
                        out.line("owner.dropped += 1")
                        out.line("continue")
                    self._unpack(out)
                    out.line("own = windows if len(windows) == 1 else (w,)")
                if self._marks_seen:
                    out.line("if k not in seen.values: seen.put(k, True)")
                if expiring := [j for j, spec in states.items() if spec.ttl is not None]:
                    out.line("now = owner.watermark if t < owner.watermark else t")
                    out.line("; ".join(f"c{j}.begin_call(k, now)" for j in expiring))
                for j in states:
                    # The DoFn may keep it beyond the call.
                    out.line(_accessor(j, f"c{j}"))
                if self._sets_timers:
                    out.line("setter = KeyedTimers(owner, k, w, t, t, p)")
                self._call(out, same_properties)
        out.text[0] = f"def run(values, elements, {', '.join([*(f'{name}s' for name in columns), *out.bound])}):"
        return "\n".join(out.text)

    def _unpack(self, out: Lines) -> None:
        columns = [*(f"c{j}" for j in self._method.specs), *(["seen"] if self._marks_seen else [])]
        if columns:
            out.line(f"{', '.join(columns)}, = found")

    def _buffers(self, out: Lines) -> None:
        out.line(f"o, ot = {out.bind('at')}({self._where})")

    def _call(self, out: Lines, same_properties: bool) -> None:
        if isgeneratorfunction(self._method.method):
            if not same_properties:
                self._buffers(out)
            self._outputs(out, self._call_of_method)
        else:
            out.line(f"r = {self._call_of_method}")
            with out.block("if r is not None:"):
                out.line("if type(r) is not q: q = iterable_type(r)")
                if not same_properties:
                    self._buffers(out)
                self._outputs(out, "r")
        if self._sets_timers:
            with out.block("if owner.is_overdue:"):
                # An error of a timer's method is not one of the element.
                out.line("element, e = e, None")
                out.line("fire_due()")
                out.line("e = element; by_window.clear()")

    def _outputs(self, out: Lines, iterable: str) -> None:
        with out.block(f"for x in {iterable}:"):
            with out.block("if type(x) is not kind:"):
                with out.block("if type(x) in SPECIAL:"):
                    out.line(f"special(x, t, {self._where})")
                    self._buffers(out)
                    out.line("continue")
                out.line("kind = type(x)")
            # The DoFn may hold an output, or have written it to a state.
            unshare(out, "x")
            out.line("o.append(x)")
            out.line("ot.append(t)")
            with out.block(f"if len(o) >= {BUNDLE_SIZE}:"):
                out.line("flush()")
                self._buffers(out)
