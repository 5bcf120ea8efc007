"""The arguments of a user's function.

Parameters are filled in order.  A parameter whose default is a `DoFn` marker gets the requested property.  The first
other parameter gets the element.  Those after it get the arguments of the ParDo, or keep their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from ...frozen import frozen
from ..errors import InputError, PipelineError, StatefulDoFnError, UnsupportedError
from ..user_code.signatures import signature
from .dofn import CallableDoFn, DoFn, DoFnParam, FlatMapTupleDoFn, MapTupleDoFn
from .stateful_dofn import StatefulSignature, signature_of, validate_stateful_dofn


@frozen
class Argument:
    """One argument of the call.

    Attributes:
      marker: the `DoFn` marker; `DoFn.ElementParam` for the element itself; None for an argument of the ParDo.
      value: the argument of the ParDo, which may be a `SideInputArgument`.
      keyword: the parameter's name if it is passed by keyword.
    """

    marker: DoFnParam | None = None
    value: Any = None
    keyword: str | None = None


_ELEMENT = Argument(DoFn.ElementParam)
_ELEMENT_WISE = {
    "ElementParam",
    "TimestampParam",
    "WindowParam",
    "WindowedValueParam",
    "PaneInfoParam",
    "KeyParam",
    "SignParam",
    "BundleFinalizerParam",
    "BundleContextParam",
    "SetupContextParam",
    "StateParam",
    "TimerParam",
}
# Markers for the methods that timers and windows call.
_OF_A_TIMER = {
    "TimestampParam",
    "WindowParam",
    "PaneInfoParam",
    "KeyParam",
    "SignParam",
    "StateParam",
    "TimerParam",
    "DynamicTimerTagParam",
}
# A timer set at the expiry of its window could never fire.
_OF_AN_EXPIRY = _OF_A_TIMER - {"TimerParam", "DynamicTimerTagParam"}


def user_function(fn: DoFn) -> Callable[..., Any]:
    """Return the function that the user wrote."""
    return fn.fn if isinstance(fn, CallableDoFn) else fn.process


def called_function(fn: DoFn) -> Callable[..., Any]:
    """Return the function to call with the arguments of `bind`."""
    return fn.unpacked if isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn)) else user_function(fn)


def bind(fn: DoFn, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str) -> tuple[Argument, ...]:
    """Return the arguments of the user's function, in order.

    Raises `PipelineError`, naming the transform, if they don't fit its signature.
    """
    function = user_function(fn)
    spread = isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn))
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):
        # A built-in without a signature takes the element first.
        return (_ELEMENT, *_given(args, kwargs))
    if not any(isinstance(p.default, DoFnParam) for p in parameters):
        _check_count(function, parameters, args, kwargs, label, spread)
        return (_ELEMENT, *_given(args, kwargs))
    # Says that the parameter gets an argument of the ParDo, and so does every parameter without a marker.
    parameters = [p.replace(default=p.empty) if p.default is DoFn.SideInputParam else p for p in parameters]
    given = list(args)
    bound: list[Argument] = []
    has_element = spread
    if spread:
        bound.append(_ELEMENT)
        # The number of an element's items is unknown.
        parameters = [p for p in parameters if isinstance(p.default, DoFnParam)]
    has_element = has_element or any(p.default is DoFn.ElementParam for p in parameters)
    by_keyword = False
    for p in parameters:
        keyword = p.name if by_keyword or spread or p.kind is p.KEYWORD_ONLY else None
        if p.kind is p.VAR_POSITIONAL:
            bound.extend(Argument(value=value) for value in given)
            given = []
        elif p.kind is p.VAR_KEYWORD or p.name in kwargs:
            by_keyword = True
        elif isinstance(p.default, DoFnParam):
            bound.append(Argument(p.default, keyword=keyword))
        elif not has_element and p.kind is not p.KEYWORD_ONLY:
            bound.append(_ELEMENT)
            has_element = True
        elif given and p.kind is not p.KEYWORD_ONLY:
            bound.append(Argument(value=given.pop(0), keyword=keyword))
        elif p.default is p.empty:
            raise InputError(f"{label}: {_name(function)} needs an argument for {p.name!r}, and none was given")
        else:
            by_keyword = True
    if spread:
        # Behind the element's items, and before keyword arguments.
        bound[1:1] = [Argument(value=value) for value in given]
        given = []
    if given:
        raise InputError(f"{label}: {_name(function)} was given {len(given)} more arguments than it takes")
    bound.extend(Argument(value=value, keyword=name) for name, value in kwargs.items())
    return tuple(bound)


def check_signature(fn: DoFn, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str) -> None:
    """Raise `PipelineError` for a DoFn whose parameters can't be filled."""
    for argument in bind(fn, args, kwargs, label):
        marker = argument.marker
        if marker is None:
            continue
        if marker is DoFn.DynamicTimerTagParam:
            raise PipelineError(f"{label}: {marker!r} is for on_timer methods; an element has no timer's tag")
        if marker.name not in _ELEMENT_WISE:
            raise UnsupportedError(f"{label}: {marker!r} is not supported by any runner yet")
        if marker.name in ("StateParam", "TimerParam") and isinstance(fn, CallableDoFn):
            raise StatefulDoFnError(
                f"{label}: {marker!r} is for the methods of a DoFn, and {_name(fn.fn)} is a function"
            )


def check_stateful(fn: DoFn, label: str) -> StatefulSignature:
    """Return the states and timers of a DoFn.

    Raises `StatefulDoFnError` if its declarations are inconsistent.
    """
    stateful = signature_of(fn)
    if not stateful.is_stateful:
        return stateful
    try:
        validate_stateful_dofn(fn)
    except StatefulDoFnError as error:
        raise StatefulDoFnError(f"{label}: {error}") from None
    for name in stateful.on_timer.values():
        bind_callback(fn, name, label)
    if stateful.on_window_expiration is not None:
        bind_callback(fn, stateful.on_window_expiration, label, is_expiry=True)
    return stateful


def bind_callback(fn: DoFn, method: str, label: str, is_expiry: bool = False) -> tuple[Argument, ...]:
    """Return the arguments of a method that a timer, or the expiry of a window, calls."""
    bound = []
    allowed = _OF_AN_EXPIRY if is_expiry else _OF_A_TIMER
    what = "on_window_expiration" if is_expiry else "on_timer"
    for p in signature(getattr(fn, method)).parameters.values():
        if isinstance(p.default, DoFnParam):
            if p.default.name not in allowed:
                raise StatefulDoFnError(
                    f"{label}: the {what} method {method} asks for {p.default!r}, which it can't be given"
                )
            bound.append(Argument(p.default, keyword=p.name))
        elif p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise StatefulDoFnError(
                f"{label}: the {what} method {method} has the parameter {p.name!r}, which gets no value: "
                "it is called for no element; give it a default, such as DoFn.KeyParam"
            )
    return tuple(bound)


def _given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Argument]:
    return [
        *(Argument(value=value) for value in args),
        *(Argument(value=value, keyword=name) for name, value in kwargs.items()),
    ]


def _check_count(
    function: Callable[..., Any],
    parameters: list[Parameter],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    label: str,
    spread: bool,
) -> None:
    try:
        if spread:
            signature(function).bind_partial(*args, **kwargs)
        else:
            signature(function).bind(None, *args, **kwargs)
    except TypeError as error:
        what = "items of the element" if spread else "the element"
        names = ", ".join(str(p) for p in parameters)
        raise InputError(
            f"{label}: {_name(function)}({names}) can't be called with {what} and the arguments given: {error}"
        ) from error


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
