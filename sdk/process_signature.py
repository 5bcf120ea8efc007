"""How a user's function is called: which of its parameters gets what.

Parameters are filled in order.  One whose default is a `DoFn` marker gets what the
marker asks for; the first other one gets the element; those after it get the arguments
given to the ParDo, and keep their defaults when there are no more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from .dofn import CallableDoFn, DoFn, DoFnParam, FlatMapTupleDoFn, MapTupleDoFn
from .errors import PipelineError, UnsupportedError


@attrs.frozen
class Argument:
    """One argument of the call.

    Attributes:
      marker: the `DoFn` marker that asks for it; `DoFn.ElementParam` for the element itself;
        None for a value that the user gave.
      value: that value, maybe a `SideInputArgument`.
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
}


def user_function(fn: DoFn) -> Callable[..., Any]:
    """The function that the user wrote."""
    return fn.fn if isinstance(fn, CallableDoFn) else fn.process


def bind(fn: DoFn, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str) -> tuple[Argument, ...]:
    """The arguments that the user's function is called with, in order.

    Raises `PipelineError`, naming the transform, when they don't fit its signature.
    """
    function = user_function(fn)
    spread = isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn))
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # A built-in that doesn't say: the element first.
        return (_ELEMENT, *_given(args, kwargs))
    if not any(isinstance(p.default, DoFnParam) for p in parameters):
        _check_count(function, parameters, args, kwargs, label, spread)
        return (_ELEMENT, *_given(args, kwargs))
    given = list(args)
    bound: list[Argument] = []
    has_element = spread
    if spread:
        bound.append(_ELEMENT)
        # How many items an element has is known only when it comes.
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
            raise PipelineError(f"{label}: {_name(function)} needs an argument for {p.name!r}, and none was given")
        else:
            by_keyword = True
    if spread:
        # Behind the element's items, as many as they are, and before what goes by keyword.
        bound[1:1] = [Argument(value=value) for value in given]
        given = []
    if given:
        raise PipelineError(f"{label}: {_name(function)} was given {len(given)} more arguments than it takes")
    bound.extend(Argument(value=value, keyword=name) for name, value in kwargs.items())
    return tuple(bound)


def check_signature(fn: DoFn, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str) -> None:
    """Raise what can be told about a DoFn before it runs."""
    for argument in bind(fn, args, kwargs, label):
        marker = argument.marker
        if marker is not None and marker.name not in _ELEMENT_WISE:
            raise UnsupportedError(f"{label}: DoFn.{marker.name} is not supported by any runner yet")


def _given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Argument]:
    return [
        *(Argument(value=value) for value in args),
        *(Argument(value=value, keyword=name) for name, value in kwargs.items()),
    ]


def _check_count(
    function: Callable[..., Any],
    parameters: list[inspect.Parameter],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    label: str,
    spread: bool,
) -> None:
    try:
        if spread:
            inspect.signature(function).bind_partial(*args, **kwargs)
        else:
            inspect.signature(function).bind(None, *args, **kwargs)
    except TypeError as error:
        what = "items of the element" if spread else "the element"
        names = ", ".join(str(p) for p in parameters)
        raise PipelineError(
            f"{label}: {_name(function)}({names}) can't be called with {what} and the arguments given: {error}"
        ) from error


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
