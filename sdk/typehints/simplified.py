"""Type hints cut down to the few shapes that the rest of this package looks at."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any, ClassVar, Final, ForwardRef, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import typing_extensions

from ..element_wrappers import SPECIAL_TYPES

NoneType = type(None)

_WRAPPERS = (Annotated, Final, ClassVar, typing.Required, typing.NotRequired, typing_extensions.ReadOnly)
_UNKNOWN = (Any, object, typing.NoReturn, typing.Never)


def simplified(hint: Any) -> Any:
    """The same hint without what doesn't matter here; `Any` for what can't be known.

    `None` becomes its type, a `NewType` what it is made from, a `Literal` the union of its
    values' types, `Annotated[T, ...]` becomes T.  Type variables, unresolved names and
    the wrappers of values (`TimestampedValue` and the like) become `Any`.

    >>> simplified(Annotated[int, "positive"]), simplified(TypeVar("T")), simplified(Literal["a", 1]) == Union[str, int]
    (<class 'int'>, typing.Any, True)
    """
    if hint is None:
        return NoneType
    if isinstance(hint, (str, ForwardRef, TypeVar, ParamSpec)) or hint in _UNKNOWN:
        return Any
    if isinstance(hint, typing.NewType):
        return simplified(hint.__supertype__)
    origin = get_origin(hint)
    if origin is Literal:
        return union_of([type(value) for value in get_args(hint)])
    if origin in _WRAPPERS:
        return simplified(get_args(hint)[0])
    # A `type X = ...` of Python 3.12.
    if type(hint).__name__ == "TypeAliasType" and hasattr(hint, "__value__"):
        return simplified(hint.__value__)
    if hint in SPECIAL_TYPES or origin in SPECIAL_TYPES:
        return Any
    return hint


def union_of(hints: list[Any]) -> Any:
    """The union of some hints; `Any` for none of them and where one is `Any`.

    >>> union_of([int, int]), union_of([int, Any])
    (<class 'int'>, typing.Any)
    """
    return Any if not hints or Any in hints else Union[tuple(hints)]  # noqa: UP007 (any number of them)


def members(hint: Any) -> tuple[Any, ...] | None:
    """What a union is made of, or None for what is no union.

    >>> members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else None


def class_and_args(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint as a class and its parameters; as (None, ()) where it is built on no class.

    A named tuple is a tuple of its fields' types.

    >>> class_and_args(dict[str, int]), class_and_args(int)
    ((<class 'dict'>, (<class 'str'>, <class 'int'>)), (<class 'int'>, ()))
    """
    origin = get_origin(hint) or hint
    if not isinstance(origin, type):
        return None, ()
    args = get_args(hint)
    if origin is tuple and not args and hint not in (tuple, typing.Tuple):  # noqa: UP006
        # tuple[()], which is not any tuple but the empty one.
        args = ((),)
    if not args and issubclass(origin, tuple) and hasattr(origin, "_fields"):
        annotations = getattr(origin, "__annotations__", {})
        args = tuple(annotations.get(name, Any) for name in origin._fields)
    return origin, args
