"""Bytecode analysis: functions that can't return a TimestampedValue or another special element.

A stage has to check the type of each result of a function.  The bytecode of many functions shows that the result is a
new number, string, tuple or list, and the check can be omitted (a sixth of the time of a chain of small functions).
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

# Instructions whose result is a new plain value.  Operators on objects of users' classes could return anything, but no
# element with a timestamp.
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

# Built-ins whose result is always new and plain.
_PLAIN_CALLS = frozenset(
    {abs, bool, bytes, chr, dict, divmod, float, format, frozenset, hash, hex, int, len, list, ord, pow}
    | {repr, round, set, sorted, str, sum, tuple}
)


def returns_plain(fn: Callable[..., Any], of_element: bool = True) -> bool:
    """Return True if every result of `fn` is certainly a plain value.

    `of_element` says that its first argument is the element, which is plain itself.

    >>> returns_plain(lambda x: x + 1), returns_plain(lambda x: int(x)), returns_plain(lambda x: x.value)
    (True, True, False)
    """
    return _every_return(fn, _is_plain if of_element else _is_new)


def _every_return(fn: Callable[..., Any], holds: Callable[[Any, list[dis.Instruction], int], bool]) -> bool:
    """Return True if a condition holds for the instruction before every return."""
    if not isinstance(fn, FunctionType) or fn.__code__.co_flags & 0x20:  # a generator
        return False
    code = _instructions(fn.__code__)
    returns = 0
    for i, (_, instruction) in enumerate(pairwise(code)):
        if instruction.opname == "RETURN_CONST":
            return False
        if instruction.opname == "RETURN_VALUE":
            if instruction.is_jump_target or not holds(fn, code, i):
                return False
            returns += 1
    return returns > 0


# Functions that are made in one place have equal code.
@lru_cache(maxsize=64)
def _instructions(code: CodeType) -> list[dis.Instruction]:
    """Return the instructions of a function's code."""
    return list(dis.get_instructions(code))


def _is_plain(fn: FunctionType, code: list[dis.Instruction], i: int) -> bool:
    """Return True if instruction `i` pushes a new plain value, or the element itself."""
    if code[i].opname == "LOAD_FAST":
        return _is_plain_variable(fn, code, code[i].argval)
    return _is_new(fn, code, i)


def _is_new(fn: FunctionType, code: list[dis.Instruction], i: int) -> bool:
    """Return True if instruction `i` pushes a new plain value."""
    instruction = code[i]
    if instruction.opname == "BINARY_OP" and instruction.argrepr == "[]":
        # An item, which is of any type, is loaded by an operator from Python 3.14 on.
        return False
    return instruction.opname in _PLAIN or _callee(fn, code, i) in _PLAIN_CALLS


def _is_plain_variable(fn: FunctionType, code: list[dis.Instruction], name: str) -> bool:
    """Return True if a variable only ever holds the element, or new plain values."""
    # From Python 3.13 on, one instruction may store two variables.
    stores = [i for i, own in enumerate(code) if "STORE_FAST" in own.opname and name in own.argrepr.split(", ")]
    if name in fn.__code__.co_varnames[: fn.__code__.co_argcount]:
        # The first parameter is the element, which is plain; the others may be anything.
        if name != fn.__code__.co_varnames[0] or fn.__defaults__:
            return False
    elif not stores:
        return False
    return all(
        i > 0 and code[i].opname == "STORE_FAST" and not code[i].is_jump_target and _is_new(fn, code, i - 1)
        for i in stores
    )


def _callee(fn: FunctionType, code: list[dis.Instruction], call: int) -> Any:
    """Return the global that a CALL calls; None if the callee isn't a global, or the instruction no CALL.

    It is found by walking back over the instructions that pushed the arguments.
    """
    if code[call].opname != "CALL":
        return None
    wanted = (code[call].arg or 0) + 2
    pushed = 0
    # In Python 3.11 a call is two instructions.
    last = call - 2 if code[call - 1].opname == "PRECALL" else call - 1
    for i in range(last, -1, -1):
        instruction = code[i]
        if code[i + 1].is_jump_target or instruction.opname == "KW_NAMES":
            return None
        effect = dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
        pushed += effect
        if pushed >= wanted:
            # A called function is pushed together with a NULL; an object whose method is called is not.
            if pushed > wanted or effect != 2 or instruction.opname != "LOAD_GLOBAL":
                return None
            found = fn.__globals__.get(instruction.argval, getattr(builtins, instruction.argval, None))
            return found if isinstance(found, Hashable) else None
    return None
