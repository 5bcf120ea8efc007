"""Types of a function's arguments, side inputs included, against its type hints, when the pipeline is built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from ...sdk.dofn.arrangement import ArrangementDoFn
from ...sdk.dofn.dofn import (
    CallableDoFn,
    ColumnDoFn,
    DoFn,
    DoFnParam,
    FlatMapTupleDoFn,
    MapTupleDoFn,
    WrappingDoFn,
)
from ...sdk.errors import TypeHintError
from ...sdk.pvalue import PCollection
from ...sdk.side_input_views import NO_DEFAULT
from ...sdk.side_inputs import AsDict, AsIter, AsList, AsMultiMap, AsSideInput, AsSingleton
from ...sdk.typehints import infer_type, is_compatible, key_type, value_type
from ...sdk.typehints.callables import annotations_of
from ...sdk.typehints.decorators import given_inputs
from ...sdk.typehints.forms import constraint_of
from ...sdk.typehints.simplified import class_and_args, simplified
from ...sdk.user_code.signatures import signature

Hints = tuple[tuple[Any, ...], Mapping[str, Any]]


def check_argument_types(
    fn: DoFn, given: Hints, element_type: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], label: str
) -> None:
    """Raise `TypeHintError`, naming the parameter, for an argument of another type than its hint.

    Args:
      given: the types that the transform declares, by position and by name; without any, those that the decorators of
        the function declare, or its annotations.
      args, kwargs: the arguments behind the element.
    """
    called = _called(fn)
    if called is None:
        return
    parameters, annotated = called
    positional, named = given if any(given) else given_inputs(fn.fn if isinstance(fn, CallableDoFn) else fn)
    is_declared = bool(positional or named)
    if not is_declared and not (annotated and (args or kwargs)):
        return
    taken = inspect.Signature(parameters)
    wanted = _declared_types(taken, positional, named, label) if is_declared else annotated
    if not args and not kwargs and len(wanted) < 2:
        return
    types = [element_type, *map(type_of_argument, args)]
    by_name = {name: type_of_argument(value) for name, value in kwargs.items()}
    try:
        bound = taken.bind(*types, **by_name).arguments
    except TypeError as error:
        if not is_declared:
            # The check of the signature has a better message.
            return
        raise TypeHintError(f"{label}: the arguments don't fit its typed function: {error}") from None
    first = next(iter(parameters), None)
    for parameter in parameters:
        if parameter.name not in bound or parameter.name not in wanted or parameter is first:
            continue
        expected = _whole(parameter, wanted[parameter.name])
        found = _whole(parameter, bound[parameter.name])
        if not is_compatible(found, expected):
            raise TypeHintError(_violation(label, expected, found, parameter.name))


def _violation(label: str, expected: Any, found: Any, name: str) -> str:
    wanted, got = constraint_of(expected), constraint_of(found)
    return f"Type hint violation for {label!r}: requires {wanted!r} but got {got!r} for {name}"


def _called(fn: DoFn) -> tuple[list[inspect.Parameter], dict[str, Any]] | None:
    """Return the parameters of a function or `process`, without those that the runner fills, and their annotations."""
    if isinstance(fn, (MapTupleDoFn, FlatMapTupleDoFn, WrappingDoFn, ColumnDoFn, ArrangementDoFn)):
        return None
    function: Callable[..., Any] = fn.fn if isinstance(fn, CallableDoFn) else fn.process
    try:
        found = list(signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.default is DoFn.ElementParam for p in found):
        return None
    parameters = [p for p in found if not isinstance(p.default, DoFnParam)]
    return parameters, annotations_of(function)


def _declared_types(
    taken: inspect.Signature, positional: tuple[Any, ...], named: Mapping[str, Any], label: str
) -> dict[str, Any]:
    """Return the declared types by parameter; those of `*args` and `**kwargs` as a tuple and a dictionary."""
    try:
        bound = taken.bind_partial(*positional, **named)
    except TypeError as error:
        raise TypeHintError(f"{label}: its type hints don't fit the parameters of its function: {error}") from None
    return dict(bound.arguments)


def _whole(parameter: inspect.Parameter, hint: Any) -> Any:
    """Return the type of all that a parameter takes: a tuple for `*args`, a dictionary for `**kwargs`."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        if isinstance(hint, tuple):
            hint = Union[hint]  # noqa: UP007 (any number of them)
        return hint if class_and_args(simplified(hint))[0] is tuple else tuple[hint, ...]
    if parameter.kind is parameter.VAR_KEYWORD:
        if isinstance(hint, dict):
            hint = Union[tuple(hint.values())]  # noqa: UP007 (any number of them)
        return hint if class_and_args(simplified(hint))[0] is dict else dict[str, hint]
    return hint


def type_of_argument(value: Any) -> Any:
    """Return the type of a function's argument, which is a value or a side input.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> type_of_argument(3), type_of_argument(beam.pvalue.AsList(p | beam.Create([1.5])))
    (<class 'int'>, list[float])
    """
    if not isinstance(value, AsSideInput):
        return infer_type([value])
    element = _element_type(value.pvalue)
    if isinstance(value, AsSingleton):
        return element if type(value) is AsSingleton and value.default_value is NO_DEFAULT else Any
    if isinstance(value, (AsList, AsIter)):
        return list[element]  # type: ignore[valid-type]
    if isinstance(value, AsDict):
        return dict[key_type(element), value_type(element)]  # type: ignore[misc]
    if isinstance(value, AsMultiMap):
        return dict[key_type(element), Iterable[value_type(element)]]  # type: ignore[misc]
    return Any


def _element_type(pcoll: PCollection[Any]) -> Any:
    return simplified(pcoll.checked_type)
