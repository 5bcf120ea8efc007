"""Type hints reduced to the few shapes that the rest of this package handles."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, ClassVar, Final, ForwardRef, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from ...windowing.timestamped_value import TimestampedValue
from ..adapters import typehint_of
from ..elements.element_wrappers import SPECIAL_TYPES

NoneType = type(None)

_WRAPPERS = (Annotated, Final, ClassVar, typing.Required, typing.NotRequired)
_UNKNOWN = (Any, object, typing.NoReturn, typing.Never)


def simplified(hint: Any) -> Any:
    """Return a hint in its simplest form; `Any` for unknown types.

    `None` becomes its type, a `NewType` its base type, a `Literal` the union of its values' types, `Annotated[T, ...]`
    becomes T, and an object with a converter the hint of `typing`.  Type variables, unresolved names and the wrappers
    of values (`TimestampedValue` and the like) become `Any`, `TimestampedValue[T]` becomes T.

    >>> simplified(Annotated[int, "positive"]), simplified(TypeVar("T")), simplified(Literal["a", 1]) == Union[str, int]
    (<class 'int'>, typing.Any, True)
    """
    if hint is None:
        return NoneType
    hint = typehint_of(hint)
    if isinstance(hint, (str, ForwardRef, TypeVar, ParamSpec)) or hint in _UNKNOWN:
        return Any
    if isinstance(hint, typing.NewType):
        return simplified(hint.__supertype__)
    origin = get_origin(hint)
    if origin is Literal:
        return union_of([type(value) for value in get_args(hint)])
    if origin in _WRAPPERS or getattr(origin, "_name", None) == "ReadOnly":
        return simplified(get_args(hint)[0])
    # A `type X = ...` of Python 3.12.
    if type(hint).__name__ == "TypeAliasType" and hasattr(hint, "__value__"):
        return simplified(hint.__value__)
    if origin is TimestampedValue:
        return simplified(get_args(hint)[0])
    if hint in SPECIAL_TYPES or origin in SPECIAL_TYPES:
        return Any
    return hint


def declared(hint: Any) -> Any:
    """Return a declared hint as one of `typing`.  Raises `TypeError` for a value that is no hint.

    >>> declared(5)
    Traceback (most recent call last):
    TypeError: a type hint must be a non-sequence, a type, or a TypeConstraint; 5 is an instance of int
    """
    if isinstance(hint, (int, float, bytes, list, tuple, dict, set, frozenset)):
        kind = type(hint).__name__
        raise TypeError(
            f"a type hint must be a non-sequence, a type, or a TypeConstraint; {hint!r} is an instance of {kind}"
        )
    return typehint_of(hint)


def union_of(hints: list[Any]) -> Any:
    """Return the union of hints; `Any` for no hints or if one of them is `Any`.

    >>> union_of([int, int]), union_of([int, Any])
    (<class 'int'>, typing.Any)
    """
    return Any if not hints or Any in hints else Union[tuple(hints)]  # noqa: UP007 (any number of them)


def members(hint: Any) -> tuple[Any, ...] | None:
    """Return the members of a union, or None for other hints.

    >>> members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else None


def class_and_args(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the class of a hint and its parameters; (None, ()) for a hint without a class.

    A named tuple is a tuple of its fields' types.

    >>> class_and_args(dict[str, int]), class_and_args(int)
    ((<class 'dict'>, (<class 'str'>, <class 'int'>)), (<class 'int'>, ()))
    """
    origin = get_origin(hint) or hint
    if not isinstance(origin, type):
        return None, ()
    args = get_args(hint)
    if origin is tuple and not args and hint not in (tuple, typing.Tuple):  # noqa: UP006
        # tuple[()] is the empty tuple, and not any tuple.
        args = ((),)
    if not args and issubclass(origin, tuple) and hasattr(origin, "_fields"):
        annotations = getattr(origin, "__annotations__", {})
        args = tuple(annotations.get(name, Any) for name in origin._fields)
    return origin, args
