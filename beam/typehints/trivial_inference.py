"""Beam's names for the inference of result types, and the binding of types to a function's parameters.

>>> from penstock.typehints import List
>>> infer_return_type(lambda line: line.split(","), [str]) == List[str]
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any as AnyType

from ...sdk.typehints.callables import annotations_of
from ...sdk.typehints.inference import infer_type
from ...sdk.typehints.parts import element_of
from ...sdk.typehints.results import infer_result
from .constraints import (
    DictConstraint,
    TupleConstraint,
    TupleSequenceConstraint,
    TypeCheckError,
    TypeConstraint,
    union_of_types,
)
from .native_types import convert_to_python_type
from .subscripts import Any, Dict, Tuple, normalize


def infer_return_type(
    c: Callable[..., AnyType], input_types: Iterable[AnyType], debug: bool = False, depth: int = 5
) -> AnyType:
    """Return the result type of a function for positional arguments of these types; `Any` if it is unknown.

    Args:
      input_types: Beam's constraints, or hints of `typing`.
      debug: has no effect.
      depth: how many calls of other functions are followed, one inside the other.

    >>> infer_return_type(lambda word: (word, 1), [str])
    Tuple[<class 'str'>, <class 'int'>]
    """
    return _constraint(infer_result(c, [convert_to_python_type(one) for one in input_types], depth))


def instance_to_type(o: AnyType) -> AnyType:
    """Return the type of a value, with those of its items.

    >>> instance_to_type([("a", 1), ("b", None)])
    List[Tuple[<class 'str'>, Union[<class 'NoneType'>, <class 'int'>]]]
    """
    return _constraint(infer_type([o]))


def element_type(hint: AnyType) -> AnyType:
    """Return the type of the items of an iterable; `Any` if it is unknown.

    >>> element_type(Dict[str, int]), element_type(int)
    (<class 'str'>, Any)
    """
    return _constraint(element_of(convert_to_python_type(hint)))


def union(a: AnyType, b: AnyType) -> AnyType:
    """Return the type of values of one type or the other.

    >>> union(int, int), union(int, str)
    (<class 'int'>, Union[<class 'int'>, <class 'str'>])
    """
    return union_of_types([_constraint(a), _constraint(b)])


def _constraint(hint: AnyType) -> AnyType:
    converted = normalize(hint, none_as_type=True)
    return converted if isinstance(converted, (type, TypeConstraint)) else Any


def get_signature(func: AnyType) -> inspect.Signature:
    """Return the signature of a callable; of a built-in without one, `(*args, **kwargs)`.

    >>> str(get_signature(lambda line, n=1: line))
    '(line, n=1)'
    """
    try:
        found = inspect.signature(func)
    except (TypeError, ValueError):
        of_any = inspect.Parameter("_", inspect.Parameter.VAR_POSITIONAL)
        named = inspect.Parameter("__", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([of_any.replace(name="args"), named.replace(name="kwargs")])
    is_open = found.return_annotation is found.empty
    return found.replace(return_annotation=normalize(func)) if isinstance(func, type) and is_open else found


def whole_hint(parameter: inspect.Parameter, hints: list[AnyType]) -> AnyType:
    """Return the type of what a parameter takes: one type, a tuple for `*args`, a dictionary for `**kwargs`.

    Args:
      hints: the types of its arguments, or the annotation; none for `Any`.
    """
    found = [_constraint(hint) for hint in hints]
    if parameter.kind is parameter.VAR_POSITIONAL:
        if len(found) == 1 and isinstance(found[0], (TupleConstraint, TupleSequenceConstraint)):
            return found[0]
        return Tuple[union_of_types(found), ...] if found else Tuple[Any, ...]
    if parameter.kind is parameter.VAR_KEYWORD:
        if len(found) == 1 and isinstance(found[0], DictConstraint):
            return found[0]
        return Dict[str, union_of_types(found)] if found else Dict[Any, Any]
    return found[0] if found else Any


def getcallargs_forhints(func: AnyType, *type_args: AnyType, **type_kwargs: AnyType) -> dict[str, AnyType]:
    """Return the type of each parameter, for types in place of arguments.

    A parameter without one has the type of its annotation, or else `Any`.

    Raises `TypeCheckError` for a missing type of a parameter without a default, and for too many.

    >>> getcallargs_forhints(lambda line, separator, n=0: None, str, str, n=int)
    {'line': <class 'str'>, 'separator': <class 'str'>, 'n': <class 'int'>}
    """
    signature = get_signature(func)
    try:
        bound = signature.bind(*type_args, **type_kwargs).arguments
    except TypeError as error:
        raise TypeCheckError(
            f"{getattr(func, '__qualname__', func)}: the type hints don't fit its parameters: {error}"
        ) from None
    annotated = annotations_of(func)
    found: dict[str, AnyType] = {}
    for name, parameter in signature.parameters.items():
        given = bound.get(name)
        if given is None:
            hints = [annotated[name]] if name in annotated else []
        elif parameter.kind is parameter.VAR_POSITIONAL:
            hints = list(given)
        else:
            hints = list(given.values()) if parameter.kind is parameter.VAR_KEYWORD else [given]
        found[name] = whole_hint(parameter, hints)
    return found
