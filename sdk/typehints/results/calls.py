"""Result types of operators, built-in functions and methods of built-in classes, for the types of their arguments."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ...elements.row import Row
from ..parts import element_of
from ..schema import ARROW_NAMES, is_hint, schemas_of, with_schema
from ..simplified import NoneType, class_and_args, members, simplified, union_of

_NUMBERS: Final = (bool, int, float, complex)

# Classes whose call returns an instance of exactly that class.
_CONSTRUCTED: Final = (int, float, complex, str, bytes, bool, bytearray, Row)
_COLLECTIONS: Final = (list, set, frozenset)

_SAME: Final = object()  # the class of the receiver, with its parameters
_ELEMENT: Final = object()

_FUNCTIONS: Final[dict[Any, Any]] = {
    **dict.fromkeys([len, hash, id, ord], int),
    **dict.fromkeys([repr, ascii, chr, hex, oct, bin, format, input], str),
    **dict.fromkeys([isinstance, issubclass, callable, any, all, hasattr], bool),
    **dict.fromkeys([math.sqrt, math.log, math.exp, math.log2, math.log10, math.sin, math.cos, math.pow], float),
    print: NoneType,
}

_OF_STR: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ["capitalize", "casefold", "center", "expandtabs", "format", "format_map", "join", "ljust", "lower", "lstrip"],
        str,
    ),
    **dict.fromkeys(
        ["removeprefix", "removesuffix", "replace", "rjust", "rstrip", "strip", "swapcase", "title", "translate"], str
    ),
    **dict.fromkeys(["upper", "zfill"], str),
    **dict.fromkeys(["split", "rsplit", "splitlines"], list[str]),
    **dict.fromkeys(["partition", "rpartition"], tuple[str, str, str]),
    **dict.fromkeys(["count", "find", "index", "rfind", "rindex"], int),
    **dict.fromkeys(
        ["endswith", "startswith", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"],
        bool,
    ),
    **dict.fromkeys(["isnumeric", "isprintable", "isspace", "istitle", "isupper"], bool),
    "encode": bytes,
}
_OF_BYTES: Final = {
    name: {str: bytes, list[str]: list[bytes], tuple[str, str, str]: tuple[bytes, bytes, bytes]}.get(result, result)
    for name, result in _OF_STR.items()
    if hasattr(bytes, name)
} | {"decode": str, "hex": str}

_METHODS: Final[dict[type, dict[str, Any]]] = {
    str: _OF_STR,
    bytes: _OF_BYTES,
    int: {"bit_length": int, "bit_count": int, "to_bytes": bytes, "conjugate": int},
    float: {"is_integer": bool, "hex": str, "as_integer_ratio": tuple[int, int]},
    list: {"copy": _SAME, "count": int, "index": int, "pop": _ELEMENT}
    | dict.fromkeys(["append", "extend", "insert", "remove", "reverse", "sort", "clear"], NoneType),
    tuple: {"count": int, "index": int},
    set: {"copy": _SAME, "pop": _ELEMENT, "issubset": bool, "issuperset": bool, "isdisjoint": bool}
    | dict.fromkeys(["add", "discard", "remove", "clear", "update"], NoneType),
    frozenset: {"copy": _SAME, "issubset": bool, "issuperset": bool, "isdisjoint": bool},
    dict: {"copy": _SAME, "update": NoneType, "clear": NoneType},
}


def of_operator(symbol: str, left: Any, right: Any) -> Any:
    """Return the type of `left symbol right`; `Any` if unknown.

    >>> of_operator("+", int, float), of_operator("%", str, Any), of_operator("/", int, int)
    (<class 'float'>, <class 'str'>, <class 'float'>)
    """
    left, right = simplified(left), simplified(right)
    if symbol == "%" and left in (str, bytes):
        return left
    if left in _NUMBERS and right in _NUMBERS:
        return _of_numbers(symbol, left, right)
    (kind, args), (other, others) = class_and_args(left), class_and_args(right)
    if symbol == "+" and kind is other:
        if kind in (str, bytes):
            return kind
        if kind is list:
            return list[union_of([args[0], others[0]])] if args and others else list  # type: ignore[misc]
        if kind is tuple and args and others and Ellipsis not in args + others and () not in args + others:
            return tuple[args + others]  # type: ignore[misc]
    if symbol == "*" and (other is int or kind is int):
        repeated = left if other is int else right
        of, items = (kind, args) if other is int else (other, others)
        if of in (str, bytes, list):
            return repeated
        if of is tuple:
            return tuple[element_of(repeated), ...] if items else tuple  # type: ignore[misc]
    if symbol in ("|", "&", "-", "^") and kind is other and kind in (set, frozenset) and args and others:
        return kind[union_of([args[0], others[0]])]
    return Any


def _of_numbers(symbol: str, left: Any, right: Any) -> Any:
    wider = max(left, right, int, key=_NUMBERS.index)
    if symbol in ("+", "-", "*"):
        return wider
    if wider is complex:
        return complex if symbol == "/" else Any
    if symbol == "/":
        return float
    if symbol in ("//", "%"):
        return wider
    if wider is int and symbol in ("&", "|", "^"):
        return bool if left is right is bool else int
    # The power of two integers may be a float, and that of two floats a complex number.
    return int if wider is int and symbol in ("<<", ">>") else Any


def of_subscript(hint: Any, key: Any, index: Any) -> Any:
    """Return the type of `value[key]`.

    Args:
      key: the type of the key, `slice` included.
      index: the key itself; None if it isn't known.

    >>> of_subscript(tuple[int, str], int, 1), of_subscript(dict[str, float], str, None)
    (<class 'str'>, <class 'float'>)
    """
    kind, args = class_and_args(simplified(hint))
    if kind is None:
        return Any
    if kind in (str, bytes):
        return kind if kind is str or key is slice else int if key is int else Any
    if issubclass(kind, tuple):
        if args and Ellipsis not in args and () not in args and index is not None:
            try:
                part = args[index]
            except (IndexError, TypeError):
                return Any
            return (tuple[part] if part else tuple) if isinstance(part, tuple) else part  # type: ignore[valid-type]
        if args[1:] == (Ellipsis,):
            return hint if key is slice else args[0]
        return Any
    if kind is list:
        return hint if key is slice else _of_all(element_of(hint))
    if kind is Sequence and key is int:
        return _of_all(element_of(hint))
    return _of_all(args[1]) if kind in (dict, Mapping) and len(args) == 2 else Any


def _of_all(hint: Any) -> Any:
    """Return the type of one value of a container, given that of all: `Any` if they have several."""
    alternatives = members(simplified(hint))
    return Any if alternatives is not None and len([one for one in alternatives if one is not NoneType]) > 1 else hint


def of_attribute(hint: Any, name: str) -> Any:
    """Return the type of a field of a named tuple, a dataclass or a Row; `Any` for other attributes."""
    for _, schema in schemas_of(hint):
        declared = dict(schema.fields).get(name)
        if is_hint(declared):
            return declared
        return next((kind for kind, alias in ARROW_NAMES.items() if alias == str(declared)), Any)
    kind, _ = class_and_args(simplified(hint))
    return _fields_of(kind).get(name, Any) if isinstance(kind, type) else Any


@lru_cache(maxsize=200)
def _fields_of(kind: type) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = list(kind._fields)
    else:
        return {}
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # an annotation can't be resolved
        return {}
    return {name: hints[name] for name in names if name in hints}


def of_method(hint: Any, name: str, args: list[Any]) -> Any:
    """Return the result type of a method of a built-in class.

    >>> of_method(str, "split", []), of_method(dict[str, int], "get", [str])
    (list[str], typing.Optional[int])
    """
    hint = simplified(hint)
    alternatives = members(hint)
    if alternatives is not None:
        found = [of_method(one, name, args) for one in alternatives if one is not NoneType]
        return union_of(found)
    kind, parts = class_and_args(hint)
    if kind is dict and name in ("keys", "values", "items", "get") and len(parts) == 2:
        if name == "get":
            return union_of([_of_all(parts[1]), args[1] if len(args) > 1 else NoneType])
        key, value = map(_of_all, parts)
        of_views: dict[str, Any] = {"keys": key, "values": value, "items": tuple[key, value]}  # type: ignore[valid-type]
        return Iterable[of_views[name]]  # type: ignore[valid-type]
    result = _METHODS.get(kind, {}).get(name, Any)
    if result is _SAME:
        return hint
    return element_of(hint) if result is _ELEMENT else result


def _kind_of_field(hint: Any) -> Any:
    """Return the type of a field of Rows, as in `Schema`; None if it is unknown."""
    kind = hint if schemas_of(hint) else simplified(hint)
    alternatives = [one for one in members(kind) or () if one is not NoneType]
    if len(alternatives) == 1:
        return _kind_of_field(alternatives[0])
    if kind in ARROW_NAMES:
        return ARROW_NAMES[kind]
    return kind if is_hint(kind) and kind not in (object, NoneType) else None


def of_call(fn: Any, args: list[Any], keywords: Mapping[str, Any]) -> Any:
    """Return the result type of a built-in function or class; `Any` for others.

    >>> of_call(len, [str], {}), of_call(sorted, [set[int]], {})
    (<class 'int'>, list[int])
    """
    try:
        if fn in _FUNCTIONS:
            return _FUNCTIONS[fn]
    except TypeError:  # unhashable
        return Any
    owner = getattr(fn, "__objclass__", None)
    if owner in _METHODS and args:
        return of_method(args[0] if class_and_args(simplified(args[0]))[0] is owner else owner, fn.__name__, args[1:])
    if fn is Row and keywords and not args:
        return with_schema(Row, [(name, _kind_of_field(one)) for name, one in keywords.items()])
    if isinstance(fn, type):
        return _of_class(fn, args)
    first = args[0] if args else Any
    if fn is sorted:
        return list[element_of(first)]  # type: ignore[misc]
    if fn is abs and first in (int, float):
        return first
    if fn is round and first in _NUMBERS[:3]:
        return first if len(args) > 1 and first is not bool else int
    if fn in (min, max) and not keywords:
        return union_of([simplified(arg) for arg in args]) if len(args) > 1 else element_of(first)
    if fn is sum and len(args) == 1 and element_of(first) in (int, bool):
        return int
    if fn is divmod and len(args) == 2 and set(args) <= {int, bool}:
        return tuple[int, int]
    return Any


def _of_class(kind: Any, args: list[Any]) -> Any:
    if kind in _CONSTRUCTED:
        return kind
    first = args[0] if args else Any
    if kind in _COLLECTIONS:
        element = element_of(first)
        return kind if element is Any else kind[element]
    if kind is tuple:
        return first if class_and_args(simplified(first))[0] is tuple else tuple[element_of(first), ...]  # type: ignore[misc]
    if kind is dict:
        return first if class_and_args(simplified(first))[0] is dict and len(args) == 1 else dict
    if kind is enumerate:
        return Iterator[tuple[int, element_of(first)]]  # type: ignore[misc]
    if kind is zip and args:
        return Iterator[tuple[tuple(map(element_of, args))]]  # type: ignore[misc]
    if kind is range:
        return Sequence[int]
    if kind is reversed:
        return Iterator[element_of(first)]  # type: ignore[misc]
    return kind if _makes_instances(kind) else Any


def _makes_instances(kind: type) -> bool:
    """Return whether a class is a user's, without a `__new__` or a metaclass of its own, or a named tuple."""
    # Other versions of Python may have another `__new__` of a class of its own.
    constructor = inspect.getattr_static(kind, "__init__")
    is_written_in_c = constructor is not object.__init__ and not inspect.isfunction(constructor)
    if type(kind) is not type or is_written_in_c:
        return False
    return kind.__new__ is object.__new__ or (issubclass(kind, tuple) and hasattr(kind, "_fields"))  # type: ignore[comparison-overlap]
