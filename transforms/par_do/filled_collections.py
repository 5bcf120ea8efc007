"""Warnings for functions and DoFns that fill a list of the program, as `Map(out.append)`: workers fill copies of it."""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ...sdk.dofn.dofn import DoFn

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
        _warn(transform, collection, method)
        return


def warn_of_filling_dofn(dofn: DoFn, transform: str) -> None:
    """Warn if a DoFn fills a collection of the program that none of its methods reads.

    One that it reads may be a memory of each worker, such as a cache.  Attributes of a DoFn are its own.

    >>> import penstock as beam, warnings
    >>> def keeping():
    ...     out = []
    ...     class Keep(beam.DoFn):
    ...         def process(self, element):
    ...             out.append(element)
    ...     return Keep()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_filling_dofn(keeping(), "ParDo")
    >>> print(caught[0].message)
    ParDo(Keep: list.append): the list of the program stays as it is, because workers fill copies of it. Use ...
    """
    methods = [
        method
        for one in type(dofn).__mro__
        if one not in DoFn.__mro__
        for method in vars(one).values()
        if isinstance(method, FunctionType)
    ]
    if all(_FILLING.isdisjoint(method.__code__.co_names) for method in methods):
        return
    read = {id(collection) for method in methods for collection in _read_by(method)}
    for method in methods:
        for collection, name in _filled_by(method):
            if id(collection) not in read:
                _warn(transform, collection, name, f"{type(dofn).__name__}: ")
                return


def _warn(transform: str, collection: Any, method: str, where: str = "") -> None:
    kind = type(collection).__name__
    warnings.warn(
        f"{transform}({where}{kind}.{method}): the {kind} of the program stays as it is, because workers fill copies "
        "of it. Use penstock.collect(pcoll) or pcoll.show() to see the elements, or write them by a sink.",
        UserWarning,
        stacklevel=_level_of_program(),
    )


def _level_of_program() -> int:
    """Return the `stacklevel` of the caller's line outside this package: constructors may call each other."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level + 1


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
    collections = _collections_of(fn)
    for variable, method in _loads(fn):
        if method in _FILLING and variable in collections:
            yield collections[variable], method


def _read_by(fn: FunctionType) -> Iterator[Any]:
    """Yield the collections that a function uses otherwise than by a filling method."""
    collections = _collections_of(fn)
    for variable, method in _loads(fn):
        if method not in _FILLING and variable in collections:
            yield collections[variable]


def _collections_of(fn: FunctionType) -> dict[str, Any]:
    """Return the collections of the program that a function refers to, by its variables."""
    held = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False))
    collections = {name: cell.cell_contents for name, cell in held.items() if _is_set(cell)}
    # The globals of a module that is imported are its own, in a worker as well.
    if fn.__module__ == "__main__":
        collections |= {name: fn.__globals__[name] for name in fn.__code__.co_names if name in fn.__globals__}
    return {name: one for name, one in collections.items() if type(one) in _COLLECTIONS}


def _loads(fn: FunctionType) -> Iterator[tuple[str, str]]:
    """Yield each use of a variable that is no local, with the method that is taken of it, or empty text."""
    from dis import get_instructions

    variable = None
    for instruction in get_instructions(fn):
        if variable is not None:
            yield variable, instruction.argval if instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") else ""
        # A nested function loads the cell itself.
        is_load = instruction.opname in ("LOAD_DEREF", "LOAD_GLOBAL", "LOAD_CLOSURE")
        variable = instruction.argval if is_load else None


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
