"""Whether a function can return a TimestampedValue or the like at all.

A stage has to look at the type of what a function returns.  Of many small functions the
bytecode already says that the result is a new number, string, tuple or list, and the look
can be saved (a sixth of the time of a chain of arithmetic lambdas).
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from itertools import pairwise
from types import FunctionType
from typing import Any

# Instructions whose result is a new plain value.  Operators on objects of the user's own
# classes could give anything, but not an element with a timestamp: nobody overloads them so.
_PLAIN = {
    "BINARY_OP",
    "BUILD_CONST_KEY_MAP",
    "BUILD_LIST",
    "BUILD_MAP",
    "BUILD_SET",
    "BUILD_STRING",
    "BUILD_TUPLE",
    "COMPARE_OP",
    "CONTAINS_OP",
    "FORMAT_SIMPLE",
    "FORMAT_VALUE",
    "FORMAT_WITH_SPEC",
    "IS_OP",
    "LIST_APPEND",
    "UNARY_INVERT",
    "UNARY_NEGATIVE",
    "UNARY_NOT",
}


def returns_plain(fn: Callable[..., Any]) -> bool:
    """Whether every result of `fn` is certainly a plain value.

    >>> returns_plain(lambda x: x + 1), returns_plain(lambda x: x.value)
    (True, False)
    """
    return _every_return(fn, lambda instruction: instruction.opname in _PLAIN)


def returns_pair(fn: Callable[..., Any]) -> bool:
    """Whether every result of `fn` is certainly a new tuple of two.

    >>> returns_pair(lambda word: (word, 1)), returns_pair(lambda word: word)
    (True, False)
    """
    return _every_return(fn, lambda i: i.opname == "BUILD_TUPLE" and i.arg == 2)


def _every_return(fn: Callable[..., Any], holds: Callable[[dis.Instruction], bool]) -> bool:
    if not isinstance(fn, FunctionType) or fn.__code__.co_flags & 0x20:  # a generator
        return False
    instructions = list(dis.get_instructions(fn))
    returns = 0
    for before, instruction in pairwise(instructions):
        if instruction.opname == "RETURN_CONST":
            return False
        if instruction.opname == "RETURN_VALUE":
            if instruction.is_jump_target or not holds(before):
                return False
            returns += 1
    return returns > 0
