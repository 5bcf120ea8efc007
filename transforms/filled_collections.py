"""Warning for a function that fills a list of the program, such as `Map(out.append)`: workers fill copies of it."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

_COLLECTIONS = (list, set, dict, deque)
_FILLING = frozenset(["add", "append", "appendleft", "extend", "insert", "setdefault", "update"])


def warn_of_filled(fn: Callable[..., Any], transform: str) -> None:
    """Warn if a function fills a collection of the program, which stays empty.

    A function is pickled for the run, with the objects that it refers to.

    >>> import warnings
    >>> out = []
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_filled(out.append, "Map")
    >>> print(caught[0].message)
    Map(list.append): the list of the program stays as it is, because workers fill copies of it. Use ...
    """
    for collection, method in _filled_by(fn):
        kind = type(collection).__name__
        warnings.warn(
            f"{transform}({kind}.{method}): the {kind} of the program stays as it is, because workers fill copies of "
            "it. Use penstock.collect(pcoll) or pcoll.show() to see the elements, or write them by a sink.",
            UserWarning,
            stacklevel=4,
        )
        return


def _filled_by(fn: Callable[..., Any]) -> Iterator[tuple[Any, str]]:
    """Yield the collections that a function fills, with the names of the methods, as far as they can be seen."""
    owner, name = getattr(fn, "__self__", None), getattr(fn, "__name__", "")
    if type(owner) in _COLLECTIONS:
        if name in _FILLING:
            yield owner, name
        return
    if not isinstance(fn, FunctionType):
        return
    if _FILLING.isdisjoint(fn.__code__.co_names):
        return
    held = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))
    collections = {name: cell.cell_contents for name, cell in held.items() if _is_set(cell)}
    # The globals of a module that is imported are its own, in a worker as well.
    if fn.__module__ == "__main__":
        collections |= {name: fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__}
    for variable, method in _method_calls(fn):
        if type(collections.get(variable)) in _COLLECTIONS:
            yield collections[variable], method


def _method_calls(fn: FunctionType) -> Iterator[tuple[str, str]]:
    """Yield the variables of a function that are no locals, each with a filling method that is taken of it."""
    from dis import get_instructions

    variable = None
    for instruction in get_instructions(fn):
        if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and variable and instruction.argval in _FILLING:
            yield variable, instruction.argval
        variable = instruction.argval if instruction.opname in ("LOAD_DEREF", "LOAD_GLOBAL") else None


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
