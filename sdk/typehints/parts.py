"""The parts of a type hint: a pair's key and value, an iterable's elements."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable
from typing import Any, Tuple  # noqa: UP035

from .schema import schemas_of
from .simplified import NoneType, class_and_args, members, simplified, union_of

_SINGLE = (int, float, complex, str, bytes, bytearray, NoneType, dt.date, dt.time, dt.timedelta, decimal.Decimal)


def element_of(hint: Any) -> Any:
    """Return the type of the elements of an iterable, such as the result of a FlatMap's function.

    `Any` for None and for types that aren't known to be iterable.  The members of a union are taken one by one, without
    None.

    >>> element_of(list[int]), element_of(dict[str, int]), element_of(None)
    (<class 'int'>, <class 'str'>, typing.Any)
    """
    hint = simplified(hint)
    alternatives = members(hint)
    if alternatives is not None:
        return union_of([element_of(one) for one in alternatives if one is not NoneType])
    kind, args = class_and_args(hint)
    if kind is not None and issubclass(kind, str):
        return str
    if kind is None or not issubclass(kind, Iterable) or not args or args == ((),):
        return Any
    if issubclass(kind, tuple):
        return union_of([simplified(arg) for arg in args if arg is not Ellipsis])
    return simplified(args[0])


def pair_of(key: Any, value: Any) -> Any:
    """Return the type of pairs of a key's and a value's type.

    >>> pair_of(str, int)
    typing.Tuple[str, int]
    """
    return Tuple[key, value]  # noqa: UP006 (`tuple` takes no variables, for type checkers)


def key_type(hint: Any) -> Any:
    """Return the type of the first item of a pair; `Any` if unknown.

    >>> key_type(tuple[str, int]), key_type(int)
    (<class 'str'>, typing.Any)
    """
    return _part(hint, 0)


def value_type(hint: Any) -> Any:
    """Return the type of the second item of a pair; `Any` if unknown.

    >>> value_type(tuple[str, int]), value_type(int)
    (<class 'int'>, typing.Any)
    """
    return _part(hint, 1)


def _part(hint: Any, index: int) -> Any:
    hint = simplified(hint)
    alternatives = members(hint)
    if alternatives is not None:
        return union_of([_part(one, index) for one in alternatives])
    kind, args = class_and_args(hint)
    if kind is None or not issubclass(kind, tuple):
        return Any
    if len(args) == 2:
        part = args[0] if args[1] is Ellipsis else args[index]
        return part if schemas_of(part) else simplified(part)
    return Any


def is_definitely_not_pair(hint: Any) -> bool:
    """Return whether no value of this type can be a (key, value) pair.

    >>> is_definitely_not_pair(str), is_definitely_not_pair(tuple[int, int]), is_definitely_not_pair(Any)
    (True, False, False)
    """
    hint = simplified(hint)
    alternatives = members(hint)
    if alternatives is not None:
        return all(map(is_definitely_not_pair, alternatives))
    kind, args = class_and_args(hint)
    if kind is None:
        return False
    if issubclass(kind, tuple):
        return bool(args) and args[-1] is not Ellipsis and len(args) != 2
    return issubclass(kind, (*_SINGLE, dict, set, frozenset))
