"""Signatures of users' functions, each of which is asked for several times while its transform is applied."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any


def signature(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a callable, as `inspect.signature` gives it and with its errors.

    >>> str(signature(lambda x, y=1: x))
    '(x, y=1)'
    """
    # Others might be equal to one that has another signature.
    return _kept(fn) if isinstance(fn, (FunctionType, MethodType)) else inspect.signature(fn)


# Few: what is kept holds the function, and whatever that refers to.
_kept = lru_cache(maxsize=16)(inspect.signature)
