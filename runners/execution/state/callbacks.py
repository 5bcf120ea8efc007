"""The methods of a stateful DoFn, as generated functions that are called with an element or a timer.

The function of a method passes the arguments that its parameters ask for, such as states, timers, the key and the
window, and creates no others.  `KeyedTimers` sets the timers of one key and window during a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, Protocol

import attrs

from ....sdk import graph
from ....sdk.coders.coded_key import plain
from ....sdk.dofn.signature import Argument
from ....sdk.userstate.state_spec import StateSpec
from ....sdk.userstate.timer import RuntimeTimer
from ....sdk.userstate.timer_spec import TimeDomain
from ....triggers import PaneInfo
from ....windowing import BoundedWindow
from ....windowing.timestamp import MAX_MICROS, Timestamp
from ....windowing.windows import end_of_window
from ..stages.operations import windowed_value
from .keyed_state import KeyedState
from .plain_methods import calls_methods_only
from .timers import EVENT_TIME, Timer, Timers

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


@attrs.frozen
class MethodCode:
    """The call of a method as generated code.

    Attributes:
      code: an expression over the variables `e, k, w, t, p, s, tag, setter`, and `state<j>` for each state.
      names: the globals of the code.
      specs: the worker's own specs of the states, by the index `j` of the parameter.
      lasting: the indexes of the states whose accessors may still be used after the call.
    """

    code: str
    names: dict[str, Any]
    specs: dict[int, StateSpec]
    lasting: frozenset[int]


def method_code(
    method: Callable[..., Any],
    arguments: tuple[Argument, ...],
    windowed_views: frozenset[int],
    by_bundle: dict[str, Any],
    specs: Mapping[int, StateSpec],
    codes_keys: bool,
) -> MethodCode:
    """Return the code that calls a method.

    Args:
      by_bundle: by name, the arguments that may change from bundle to bundle (`StageExecutor.bundle_arguments`).
      specs: the worker's own state specs, by the identity of those that the method's markers name.
      codes_keys: True if `k` may be in coded form.
    """
    names: dict[str, Any] = {
        "method": method,
        "B": by_bundle,
        "of_micros": Timestamp.of_micros,
        "windowed_value": windowed_value,
        "RuntimeTimer": RuntimeTimer,
        "plain": plain,
    }
    codes = []
    own: dict[int, StateSpec] = {}
    lasting = set()
    for j, argument in enumerate(arguments):
        marker: Any = argument.marker
        name = f"a0_{j}"
        if marker is not None and marker.name in _BY_MARKER:
            code = "plain(k)" if codes_keys and marker.name == "KeyParam" else _BY_MARKER[marker.name]
        elif marker is not None and marker.name == "StateParam":
            spec = own[j] = specs[id(marker.state_spec)]
            names[f"spec{j}"] = spec
            names[f"new_state{j}"] = spec.runtime
            code = f"state{j}"
            if spec.runtime.lends_itself or not calls_methods_only(method, argument.keyword or j, spec.runtime):
                lasting.add(j)
        elif marker is not None and marker.name == "TimerParam":
            code = f"RuntimeTimer({marker.timer_spec.name!r}, setter)"
        elif marker is not None:
            code = f"B[{name!r}]"
        elif isinstance(argument.value, graph.SideInputArgument):
            code = f"B[{name!r}](w)" if argument.value.index in windowed_views else f"B[{name!r}]"
        else:
            names[name] = argument.value
            code = name
        codes.append(f"{argument.keyword}={code}" if argument.keyword else code)
    return MethodCode(f"method({', '.join(codes)})", names, own, frozenset(lasting))


def generated_call(method: MethodCode, state: KeyedState) -> Callable[..., Any]:
    """Return a function `call(e, k, w, t, p, s, tag, setter)` for a method."""
    lines = [f"def call({_PARAMETERS}):"]
    lines += [f"    state{j} = new_state{j}(spec{j}, column(w, spec{j}.name), k)" for j in method.specs]
    names = {**method.names, "column": state.column}
    exec(compiled("\n".join([*lines, f"    return {method.code}"])), names)
    return names["call"]  # type: ignore[no-any-return]


# Methods with the same parameters have the same code.
@lru_cache(maxsize=256)
def compiled(source: str) -> CodeType:
    """Compile generated code."""
    return compile(source, "<penstock keyed call>", "exec")


def asks_for_timers(arguments: tuple[Argument, ...]) -> bool:
    """Return True if one of the arguments is a timer."""
    return any(a.marker is not None and a.marker.name == "TimerParam" for a in arguments)


class TimerOwner(Protocol):
    """The executor that owns the timers."""

    timers: Timers
    # By the timer's name; and by window, the watermark at which it expires, in microseconds.
    domains: dict[str, TimeDomain]
    expiries: dict[BoundedWindow, int]
    processing_time: int

    def set_timer(self, timer: Timer, domain: TimeDomain) -> None: ...


class KeyedTimers:
    """Sets timers.

    Args:
      owner: the executor that owns them.
      key, window: of the element, or of the timer that has fired.
      now: the event time of the call: the element's timestamp, or the time of the event-time timer that has fired.
      output: the timestamp of the call's outputs; no timer's output may be earlier.
      pane: of the element, or of the one that set the timer.
    """

    __slots__ = ("_key", "_now", "_output", "_owner", "_pane", "_window")

    def __init__(
        self, owner: TimerOwner, key: Any, window: BoundedWindow, now: int, output: int, pane: PaneInfo
    ) -> None:
        self._owner = owner
        self._key = key
        self._window = window
        self._now = now
        self._output = output
        self._pane = pane

    def set_timer(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set a timer, or move it."""
        owner, window = self._owner, self._window
        domain, output = owner.domains[family], self._output
        if domain is EVENT_TIME:
            # The last watermark before the window expires.
            last = owner.expiries[window] - 1
            if micros > last:
                if self._now >= last:
                    # The window is over: a timer that sets itself again ends here.
                    owner.timers.clear(window, self._key, family, tag)
                    return
                micros = last
            # Output at the end of the window has its maximum timestamp, and holds the watermark there.
            at_end = micros == end_of_window(window)
            output = max(window.max_micros if at_end else micros, output)
        if output_micros is not None:
            self._check(family, output_micros)
            output = output_micros
        owner.set_timer(Timer(micros, output, self._key, window, family, tag, self._pane), domain)

    def set_timer_relative(self, family: str, tag: str, micros: int, output_micros: int | None) -> None:
        """Set a timer relative to the current time of its domain."""
        now = self._now if self._owner.domains[family] is EVENT_TIME else self._owner.processing_time
        self.set_timer(family, tag, min(now + micros, MAX_MICROS), output_micros)

    def clear_timer(self, family: str, tag: str) -> None:
        """Clear a timer."""
        self._owner.timers.clear(self._window, self._key, family, tag)

    def _check(self, family: str, output_micros: int) -> None:
        end = self._window.max_micros
        if not self._output <= output_micros <= end:
            given, least, most = map(Timestamp.of_micros, (output_micros, self._output, end))
            raise ValueError(
                f"the timer {family!r} was given the output timestamp {given}; it must not be before {least}, the "
                f"timestamp of the element or timer that it is set for, nor after {most}, the end of {self._window!r}"
            )
