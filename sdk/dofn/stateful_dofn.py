"""The states and timers of a DoFn, and checks of their declarations.

>>> import penstock as beam
>>> from penstock.sdk.userstate import BagStateSpec
>>> class Buffer(beam.DoFn):
...     def process(self, element, buffer=beam.DoFn.StateParam(BagStateSpec("buffer"))):
...         buffer.add(element[1])
>>> is_stateful_dofn(Buffer()), signature_of(Buffer()).states
(True, (BagStateSpec(buffer),))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...frozen import frozen
from ..errors import StatefulDoFnError
from ..userstate.state_spec import StateSpec
from ..userstate.timer_spec import TimerSpec
from .dofn import CallableDoFn, DoFn, DoFnParam, StateParam, TimerParam, WrappingDoFn


@frozen
class StatefulSignature:
    """The states and timers of a DoFn.

    Attributes:
      states, timers: the specs, in the order of its methods.
      on_timer: the name of the method that each timer calls.
      on_window_expiration: the name of the method that a window's expiry calls, or None.
      takes_sign: whether it has `DoFn.SignParam`, and so decides on the signs of its outputs.
    """

    states: tuple[StateSpec, ...]
    timers: tuple[TimerSpec, ...]
    on_timer: Mapping[str, str]
    on_window_expiration: str | None
    takes_sign: bool

    @property
    def is_stateful(self) -> bool:
        """Whether it has state, timers or an expiry callback."""
        return bool(self.states or self.timers or self.on_window_expiration)


_STATELESS = StatefulSignature((), (), {}, None, takes_sign=False)


def signature_of(dofn: DoFn) -> StatefulSignature:
    """Return the states and timers of a DoFn.  Raises `StatefulDoFnError` for a spec twice in one method."""
    if isinstance(dofn, CallableDoFn) and type(dofn).__module__ == CallableDoFn.__module__:
        # A plain function has no state, timers or signs.
        return _STATELESS
    states: dict[int, StateSpec] = {}
    timers: dict[int, TimerSpec] = {}
    takes_sign = False
    expiration = None
    for name, method in _methods(dofn):
        if getattr(method, "__on_window_expiration__", False):
            if expiration is not None:
                raise StatefulDoFnError(f"DoFn {dofn!r} has two on_window_expiration methods: {expiration} and {name}")
            expiration = name
        asked: set[int] = set()
        for marker in _markers(method):
            spec: Any = None
            if isinstance(marker, StateParam):
                spec = marker.state_spec
                states[id(spec)] = spec
            elif isinstance(marker, TimerParam):
                spec = marker.timer_spec
                timers[id(spec)] = spec
            elif marker is DoFn.SignParam:
                takes_sign = True
            if spec is not None:
                if id(spec) in asked:
                    raise StatefulDoFnError(f"DoFn {dofn!r} has duplicate {name} method parameters: {spec!r}")
                asked.add(id(spec))
    callbacks = {spec.name: spec.callback_name for spec in timers.values()}
    return StatefulSignature(tuple(states.values()), tuple(timers.values()), callbacks, expiration, takes_sign)


def get_dofn_specs(dofn: DoFn) -> tuple[set[StateSpec], set[TimerSpec]]:
    """Return the states and timers of a DoFn's methods."""
    signature = signature_of(dofn)
    return set(signature.states), set(signature.timers)


def is_stateful_dofn(dofn: DoFn) -> bool:
    """Return whether a DoFn uses state or timers."""
    return signature_of(dofn).is_stateful


def validate_stateful_dofn(dofn: DoFn) -> None:
    """Raise `StatefulDoFnError`, a `ValueError`, if a DoFn's declarations are inconsistent.

    Names must be unique, and each timer needs its method.
    """
    signature = signature_of(dofn)
    _check_names(dofn, "StateSpecs", signature.states)
    _check_names(dofn, "TimerSpecs", signature.timers)
    for spec in signature.timers:
        if not spec.callback_name:
            raise StatefulDoFnError(f"DoFn {dofn!r} has a TimerSpec without an associated on_timer callback: {spec!r}.")
        method = getattr(getattr(dofn, spec.callback_name, None), "__func__", None)
        # A copy of a spec has only the name of the method.
        if method is None or spec.callback not in (None, method):
            raise StatefulDoFnError(
                f"The on_timer callback for {spec!r} is not the specified .{spec.callback_name} method "
                f"for DoFn {dofn!r} (perhaps it was overwritten?)."
            )


def _check_names(dofn: DoFn, what: str, specs: tuple[Any, ...]) -> None:
    names = [spec.name for spec in specs]
    for spec in specs:
        if names.count(spec.name) > 1:
            raise StatefulDoFnError(
                f"DoFn {dofn!r} has multiple {what} with the same name: {[s for s in specs if s.name == spec.name]}."
            )


def _methods(dofn: DoFn) -> Iterator[tuple[str, Callable[..., Any]]]:
    while isinstance(dofn, WrappingDoFn):
        dofn = dofn.fn
    base = vars(DoFn)
    kinds = [kind for kind in reversed(type(dofn).__mro__) if kind not in (object, DoFn)]
    names = dict.fromkeys(name for kind in kinds for name in vars(kind))
    # The methods of DoFn come first, in its order.
    for name in (*(name for name in base if name in names), *(name for name in names if name not in base)):
        method = getattr(type(dofn), name, None)
        if inspect.isfunction(method) and method is not base.get(name):
            yield name, method


def _markers(method: Callable[..., Any]) -> list[Any]:
    # Without inspect.signature, which would cost every ParDo of a pipeline some microseconds.
    defaults = (*(method.__defaults__ or ()), *(method.__kwdefaults__ or {}).values())
    return [default for default in defaults if isinstance(default, DoFnParam)]
