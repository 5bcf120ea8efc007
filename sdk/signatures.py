"""Signatures of users' functions, each of which is asked for several times while its transform is applied."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any


def signature(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a callable, as `inspect.signature` gives it and with its errors.

    >>> str(signature(lambda x, y=1: x))
    '(x, y=1)'
    """
    if is_bare(fn):
        return _of_code(fn.__code__)
    # Others might be equal to one that has another signature.
    return _kept(fn) if isinstance(fn, (FunctionType, MethodType)) else inspect.signature(fn)


def is_bare(fn: Any) -> bool:
    """Return whether a function's code says everything of its signature.

    It does where there are no defaults, no annotations and no attributes, which most functions of a long pipeline lack.

    >>> is_bare(lambda x: x), is_bare(lambda x, y=1: x), is_bare(len)
    (True, False, False)
    """
    if type(fn) is not FunctionType:
        return False
    return not (fn.__defaults__ or fn.__kwdefaults__ or fn.__annotations__ or fn.__dict__)


# Few: what is kept holds the function, and whatever that refers to.
_kept = lru_cache(maxsize=16)(inspect.signature)


# Functions that a loop makes have equal code.
@lru_cache(maxsize=64)
def _of_code(code: CodeType) -> inspect.Signature:
    return inspect.signature(FunctionType(code, {}, closure=tuple(CellType() for _ in code.co_freevars)))
