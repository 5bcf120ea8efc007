"""Text of type hints, for messages."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, get_args, get_origin

from ..adapters import typehint_of
from .simplified import NoneType, class_and_args, members


def describe(hint: Any) -> str:
    """Return the hint as short text, without the modules of its classes.

    >>> from typing import Optional
    >>> describe(tuple[str, Optional[int]]), describe(Any), describe(list)
    ('tuple[str, int | None]', 'Any', 'list')
    """
    hint = typehint_of(hint)
    if hint is None or hint is NoneType:
        return "None"
    if hint is Ellipsis:
        return "..."
    if isinstance(hint, str):
        return hint
    if hint == ():
        return "()"
    if isinstance(hint, (list, tuple)):
        return f"[{', '.join(map(describe, hint))}]"
    if isinstance(hint, TypeVar):
        return hint.__name__
    alternatives = members(hint)
    if alternatives is not None:
        return " | ".join(map(describe, alternatives))
    if get_origin(hint) is Annotated:
        return describe(hint.__origin__)
    return _generic(hint)


def _generic(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is None or not isinstance(origin, type):
        name = getattr(hint, "__qualname__", None) or getattr(hint, "__name__", None)
        return name.rsplit(".<locals>.", 1)[-1] if name and not args else repr(hint).replace("typing.", "")
    name = origin.__qualname__.rsplit(".<locals>.", 1)[-1]
    args = class_and_args(hint)[1] if origin is tuple else args
    return f"{name}[{', '.join(map(describe, args))}]" if args else name
