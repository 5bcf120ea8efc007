"""Bytecode analysis: what a stateful DoFn's method certainly doesn't do, so that its loop needs no check of it.

For `yield key, total.read()` the loop would check after each element whether the accessor `total` is still referenced,
whether the output is special, and whether a bundle is full: a seventh of the time of a running sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import isgeneratorfunction
from types import CodeType, FunctionType, MethodType
from typing import Any

from ..stages.plain_results import instructions

# Functions that find the variables of their caller.
_FRAME_READERS = frozenset(
    ["locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "stack", "trace", "breakpoint"]
)

# Loads of a variable, or of two, which are other instructions in other versions of Python.
_LOADS = frozenset(["LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"])


def calls_methods_only(method: Callable[..., Any], place: int | str, kind: type[Any]) -> bool:
    """Return True if all that a method does with an argument is to call the public methods of its type.

    So nothing refers to the argument after the call, unless a result of these methods does.

    Args:
      method: a bound method.
      place: the argument's position behind `self`, or its keyword.
      kind: the argument's type.

    >>> class Sums:
    ...     def add(self, pair, total):
    ...         total.write(total.read() + pair[1])
    ...     def keep(self, pair, total):
    ...         self.total = total
    >>> from penstock.sdk.userstate import ReadModifyWriteStateSpec
    >>> kind = ReadModifyWriteStateSpec.runtime
    >>> calls_methods_only(Sums().add, 1, kind), calls_methods_only(Sums().keep, "total", kind)
    (True, False)
    """
    fn = _function_of(method)
    if fn is None:
        return False
    code = fn.__code__
    positional = code.co_varnames[1 : code.co_argcount]
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    name = (positional[place] if place < len(positional) else None) if isinstance(place, int) else place
    # A variable that a nested function refers to is a cell.
    if name not in parameters or name in code.co_cellvars or not _FRAME_READERS.isdisjoint(_names_in(code)):
        return False
    every = instructions(code)
    if any(own.opname == "PUSH_EXC_INFO" for own in every):
        # The traceback of an error that is caught has the variables.
        return False
    loaded = [own.argrepr.split(", ") for own in every]
    # The last of two variables is on top.
    return all(
        every[i].opname in _LOADS and name not in names[:-1] and _loads_a_method(every[i + 1], kind)
        for i, names in enumerate(loaded)
        if name in names
    )


def yields_once(method: Callable[..., Any]) -> bool:
    """Return True if a method is a generator function that yields at most one output.

    >>> class Pairs:
    ...     def one(self, pair):
    ...         yield pair
    ...     def many(self, pair):
    ...         for part in pair:
    ...             yield part
    >>> yields_once(Pairs().one), yields_once(Pairs().many)
    (True, False)
    """
    fn = _function_of(method)
    if fn is None or not isgeneratorfunction(fn):
        return False
    names = [own.opname for own in instructions(fn.__code__)]
    return names.count("YIELD_VALUE") == 1 and not any("JUMP_BACKWARD" in name or name == "SEND" for name in names)


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes of a function and those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _loads_a_method(instruction: Any, kind: type[Any]) -> bool:
    # `total.read` without a call is an attribute, which the method may keep.
    if instruction.opname == "LOAD_ATTR":
        # From Python 3.12 on, the lowest bit tells a method from an attribute.
        is_method = bool(instruction.arg & 1) and "NULL|self" in instruction.argrepr
    else:
        is_method = instruction.opname == "LOAD_METHOD"
    # Such as `__getattribute__`, which returns other methods; and an error of an unknown name has the object.
    return is_method and not instruction.argval.startswith("_") and callable(getattr(kind, instruction.argval, None))


def _function_of(method: Callable[..., Any]) -> FunctionType | None:
    """Return the function of a bound method that is written in Python; None for any other callable."""
    if not isinstance(method, MethodType) or not isinstance(method.__func__, FunctionType):
        return None
    return method.__func__
