"""Labels of users' functions, and cached signatures, which are needed several times while a transform is applied."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any


def signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable.  Raises the errors of `inspect.signature`.

    >>> str(signature(lambda x, y=1: x))
    '(x, y=1)'
    """
    if is_bare(fn):
        return _of_code(fn.__code__)
    # Other callables may equal a callable with another signature.
    return _kept(fn) if isinstance(fn, (FunctionType, MethodType)) else inspect.signature(fn)


def is_bare(fn: Any) -> bool:
    """Return whether a function's code determines its signature.

    True for a function without defaults, annotations and attributes, like most functions of a long pipeline.

    >>> is_bare(lambda x: x), is_bare(lambda x, y=1: x), is_bare(len)
    (True, False, False)
    """
    if type(fn) is not FunctionType:
        return False
    return not (fn.__defaults__ or fn.__kwdefaults__ or fn.__annotations__ or fn.__dict__)


# Small, since the cache keeps the function and the objects that it refers to.
_kept = lru_cache(maxsize=16)(inspect.signature)


# Functions created in a loop have equal code.
@lru_cache(maxsize=64)
def _of_code(code: CodeType) -> inspect.Signature:
    return inspect.signature(FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars)))


def label_of(fn: Callable[..., Any]) -> str:
    """Return the label of a transform with a function.

    >>> label_of(len)
    'len'
    """
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__name__", None)
    if code is not None and name == "<lambda>":
        file = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
        return f"<lambda at {file}:{code.co_firstlineno}>"
    if name is None:
        inner = getattr(fn, "func", None)
        return label_of(inner) if callable(inner) else type(fn).__name__
    return str(name)


def drops_returned_value(fn: Any) -> bool:
    """Return whether a function is a generator that returns a value as well, which is no output.

    >>> def both(n):
    ...     if not n:
    ...         return [0]
    ...     yield n
    >>> drops_returned_value(both), drops_returned_value(len)
    (True, False)
    """
    code = getattr(fn, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_GENERATOR) and _returns_value(code)


@lru_cache(maxsize=64)
def _returns_value(code: CodeType) -> bool:
    before: Any = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        is_none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
        if instruction.opname == "RETURN_VALUE" and not is_none:
            return True
        before = instruction
    return False
