"""Types that a class gives the parameters of a generic base class: `class Words(DoFn[str, str])`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin

_PACKAGE = __name__.partition(".")[0]


@lru_cache(maxsize=1000)
def class_parameters(kind: type, base: type) -> tuple[Any, ...]:
    """Return the types that a user's class gives the parameters of a base class, `Any` for open ones; () without any.

    >>> from typing import Generic
    >>> T = TypeVar("T")
    >>> class Reader(Generic[T]): ...
    >>> class Pairs(Reader[tuple[str, T]]): __module__ = "program"
    >>> class Counts(Pairs[int]): __module__ = "program"
    >>> class_parameters(Counts, Reader), class_parameters(Pairs, Reader), class_parameters(Reader, Reader)
    ((tuple[str, int],), (tuple[str, typing.Any],), ())
    """
    return _found(kind, base, {})


def _found(kind: type, base: type, given: Mapping[Any, Any]) -> tuple[Any, ...]:
    for one in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = get_origin(one) or one
        if not isinstance(origin, type) or not issubclass(origin, base):
            continue
        args = tuple(_replaced(arg, given) for arg in get_args(one))
        if origin is base:
            # What penstock's own classes tell type checkers is less than what they infer at run time.
            return () if kind.__module__.partition(".")[0] == _PACKAGE else args
        return _found(origin, base, dict(zip(getattr(origin, "__parameters__", ()), args)))
    return ()


def _replaced(hint: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return given.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(one, Any) for one in parameters)] if parameters else hint
