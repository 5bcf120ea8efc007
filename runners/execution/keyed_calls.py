"""The methods of a stateful DoFn, as functions that are called with an element or a timer.

For each method a function is generated that passes it what its parameters ask for: states, timers, the key,
the window and so on are made for each call, and only those that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from ...sdk import graph
from ...sdk.coders.coded_key import plain
from ...sdk.dofn_signature import Argument
from ...sdk.element_wrappers import WindowedValue
from ...sdk.userstate.state_spec import StateSpec
from ...sdk.userstate.timer import RuntimeTimer
from ...windowing.timestamp import Timestamp
from .keyed_state import KeyedState

# The parameters of a generated function: the element, key, window, microseconds (of the element, or
# of the timer), pane, sign, the timer's tag, and what sets timers (see `keyed_timers.py`).
_PARAMETERS = "e, k, w, t, p, s, tag, setter"

_BY_MARKER = {
    "ElementParam": "e",
    "TimestampParam": "of_micros(t)",
    "WindowParam": "w",
    "WindowedValueParam": "WindowedValue(e, of_micros(t), (w,), p)",
    "PaneInfoParam": "p",
    "KeyParam": "k",
    "SignParam": "s",
    "DynamicTimerTagParam": "tag",
}


def generated_call(
    method: Callable[..., Any],
    arguments: tuple[Argument, ...],
    windowed_views: frozenset[int],
    state: KeyedState,
    by_bundle: dict[str, Any],
    specs: Mapping[int, StateSpec],
    codes_keys: bool = False,
) -> Callable[..., Any]:
    """A function `call(e, k, w, t, p, s, tag, setter)` for a method.

    `by_bundle` has the arguments that may change from bundle to bundle, by name, as
    `StageExecutor.bundle_arguments` gives them; `specs` the worker's own specs of states, by the identity of
    those that the method's markers name.  `codes_keys` says that `k` may be in coded form.
    """
    names: dict[str, Any] = {
        "method": method,
        "state": state,
        "B": by_bundle,
        "of_micros": Timestamp.of_micros,
        "WindowedValue": WindowedValue,
        "RuntimeTimer": RuntimeTimer,
        "plain": plain,
    }
    codes = []
    for j, argument in enumerate(arguments):
        marker: Any = argument.marker
        name = f"a0_{j}"
        if marker is not None and marker.name in _BY_MARKER:
            code = "plain(k)" if codes_keys and marker.name == "KeyParam" else _BY_MARKER[marker.name]
        elif marker is not None and marker.name == "StateParam":
            spec = specs[id(marker.state_spec)]
            names[f"spec{j}"] = spec
            names[f"state{j}"] = spec.runtime
            code = f"state{j}(spec{j}, state, w, k)"
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
    source = f"def call({_PARAMETERS}): return method({', '.join(codes)})"
    exec(_compiled(source), names)
    return names["call"]  # type: ignore[no-any-return]


# Methods that ask for the same are called by the same code.
@lru_cache(maxsize=256)
def _compiled(source: str) -> CodeType:
    return compile(source, "<penstock keyed call>", "exec")


def asks_for_timers(arguments: tuple[Argument, ...]) -> bool:
    """Whether one of the arguments is a timer."""
    return any(a.marker is not None and a.marker.name == "TimerParam" for a in arguments)
