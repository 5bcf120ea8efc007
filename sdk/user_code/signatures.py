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


# Functions that show the local variables of their caller.
_SEES_LOCALS = {"locals", "vars", "dir", "eval", "exec", "breakpoint", "_getframe", "currentframe", "stack"}


@lru_cache(maxsize=256)
def fields_read(code: CodeType) -> tuple[str, ...] | None:
    """Return the attributes that a function reads of its first parameter, if it does nothing else with it.

    Returns None if it may do something else, or reads none.

    >>> fields_read((lambda row, n=2: (row.a.b, row.c)).__code__)
    ('a', 'c')
    >>> fields_read((lambda row: print(row.a, row)).__code__), fields_read((lambda row: 1).__code__)
    (None, None)
    """
    if not code.co_argcount or not _SEES_LOCALS.isdisjoint(code.co_names):
        return None
    name = code.co_varnames[0]
    if name in code.co_cellvars:
        return None
    found: list[str] = []
    is_loaded = False
    for instruction in dis.get_instructions(code):
        if is_loaded:
            if instruction.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                return None
            found.append(instruction.argval)
        is_loaded = instruction.opname in ("LOAD_FAST", "LOAD_FAST_BORROW") and instruction.argval == name
        used = instruction.argval
        if not is_loaded and instruction.opname not in _CONSTANTS and (used == name or _is_among(name, used)):
            return None
    return tuple(dict.fromkeys(found)) or None


# Instructions whose argument is no variable of the function.
_CONSTANTS = {"LOAD_CONST", "RETURN_CONST", "LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "KW_NAMES", "STORE_ATTR"}


def _is_among(name: str, used: Any) -> bool:
    return isinstance(used, tuple) and name in used
