"""Defensive copies: an element is what it was when it was emitted.

A function may change an object after it has emitted it, or change its input.  In Beam an output goes on at once, and is
encoded between stages.  Here elements wait in bundles, in state and for other branches as they are.  So a value that
could be changed is copied where it begins to wait.  Numbers, text, bytes, tuples and frozen classes of these are handed
on as they are.

A copy has equal parts and shares none that can be changed.  A part that can't be copied, such as an open file or an
iterator, is the same in the copy.

>>> order = {"items": ["tea"]}
>>> emitted = defensive_copy(order)
>>> order["items"].append("jam")
>>> emitted
{'items': ['tea']}
>>> pair = ("tea", 3)
>>> defensive_copy(pair) is pair
True
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from enum import Enum
from functools import partial
from itertools import chain
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeVar

from ...triggers.pane import PaneInfo
from ...windowing.duration import Duration
from ...windowing.timestamp import Timestamp
from ...windowing.windows import BoundedWindow
from .row import Row

T = TypeVar("T")
C = TypeVar("C", bound=type)

# Types whose values are never copied.  A class is added when its first value is looked at.
IMMUTABLE: set[type] = {int, float, complex, bool, str, bytes, type(None), range, Timestamp, Duration, PaneInfo}

# How the values of other types are copied.
_copiers: dict[type, Callable[[Any], Any]] = {}

# Base classes whose instances are never copied: they can't be changed, or are read once.
_uncopied: list[type] = [
    BoundedWindow,
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    Duration,
    Enum,
    FunctionType,
    GeneratorType,
    Iterator,
    MethodType,
    ModuleType,
    Timestamp,
    partial,
    type,
]

# Modules of the standard library, and pyarrow, all classes of which have immutable instances.
_IMMUTABLE_MODULES = frozenset(
    {"datetime", "decimal", "fractions", "ipaddress", "pathlib", "pyarrow", "re", "uuid", "zoneinfo"}
)


def never_copied(cls: C) -> C:
    """Declare, as a decorator, that values of a class and its subclasses aren't copied where they wait."""
    _uncopied.append(cls)
    return cls


def copied_by_fields(*names: str) -> Callable[[C], C]:
    """Return a decorator for a wrapper with these fields, which is copied if one of their values can be changed."""

    def declare(cls: C) -> C:
        copied = _copied_slots(names)

        def unless_immutable(value: Any) -> Any:
            return copied(value) if any(_is_mutable(getattr(value, name)) for name in names) else value

        _copiers[cls] = unless_immutable
        return cls

    return declare


def defensive_copy(value: T) -> T:
    """Return a value that later changes of another one don't reach: a copy, or the value itself if it is immutable."""
    try:
        return _copy(value)  # type: ignore[no-any-return]
    except RecursionError:
        # A value that contains itself.
        return deepcopy(value)


def defensive_copies(values: list[T]) -> list[T]:
    """Return a list of values as `defensive_copy` does; the list itself if all are immutable.

    >>> values = [("a", 1), ("b", 2)]
    >>> defensive_copies(values) is values
    True
    """
    types = set(map(type, values))
    if types <= IMMUTABLE:
        return values
    if types == {tuple} and _are_flat(values):  # type: ignore[arg-type]
        return values
    return [defensive_copy(value) for value in values]


def _are_flat(values: list[tuple[Any, ...]]) -> bool:
    """Return True if all parts of tuples are immutable."""
    first = list(map(type, values[0]))
    if not IMMUTABLE.issuperset(first):
        return False
    types = list(map(type, chain.from_iterable(values)))
    # To look up each type takes twice as long, and nearly always the tuples are alike.
    return types == first * len(values) or IMMUTABLE.issuperset(types)


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind in IMMUTABLE:
        return value
    copier = _copiers.get(kind)
    if copier is None:
        copier = _copier_of(kind, value)
        if copier is None:
            IMMUTABLE.add(kind)
            return value
        _copiers[kind] = copier
    return copier(value)


def _copier_of(cls: type, value: Any) -> Callable[[Any], Any] | None:
    """Return the function that copies instances of a class; None if they are immutable."""
    roots = {base.__module__.partition(".")[0] for base in cls.__mro__ if base is not object}
    if cls is object or issubclass(cls, tuple(_uncopied)) or not roots.isdisjoint(_IMMUTABLE_MODULES):
        return None
    if "numpy" in roots:
        numpy = sys.modules["numpy"]
        if issubclass(cls, (numpy.generic, numpy.dtype)):
            return None
        return _copied_array if cls is numpy.ndarray else _deep
    if issubclass(cls, tuple) and (cls is tuple or hasattr(cls, "_fields")):
        return _copied_tuple
    if cls in _CONTAINERS:
        return _CONTAINERS[cls]
    names = _frozen_fields(cls, value)
    if names is not None:
        return _unless_immutable(names)
    if (slots := _slots(cls)) is not None:
        return _copied_slots(slots)
    return _copied_object if issubclass(cls, Row) or _is_plain(cls) else _deep


def _copied_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if IMMUTABLE.issuperset(map(type, value)):
        return value
    parts = [_copy(part) for part in value]
    if all(map(_is_same, parts, value)):
        return value
    return tuple.__new__(type(value), parts)


def _is_mutable(part: Any) -> bool:
    return type(part) not in IMMUTABLE and _copy(part) is not part


def _is_same(part: Any, other: Any) -> bool:
    return part is other


def _copied_frozenset(value: frozenset[Any]) -> frozenset[Any]:
    return value if IMMUTABLE.issuperset(map(type, value)) else frozenset(map(_copy, value))


def _copied_list(value: list[Any]) -> list[Any]:
    return value[:] if IMMUTABLE.issuperset(map(type, value)) else [_copy(part) for part in value]


def _copied_set(value: set[Any]) -> set[Any]:
    # A part with a hash isn't changed.
    return value.copy()


def _copied_deque(value: deque[Any]) -> deque[Any]:
    return deque(map(_copy, value), value.maxlen)


def _copied_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    copied = value.copy()
    if not IMMUTABLE.issuperset(map(type, copied.values())):
        for key, part in value.items():
            if type(part) not in IMMUTABLE:
                copied[key] = _copy(part)
    return copied


def _copied_array(value: Any) -> Any:
    return deepcopy(value) if value.dtype.hasobject else value.copy()


def _copied_object(value: Any) -> Any:
    copied = object.__new__(type(value))
    copied.__dict__.update(_copied_dict(value.__dict__))
    return copied


def _deep(value: Any) -> Any:
    try:
        return deepcopy(value)
    except RecursionError:
        raise
    except Exception:
        # A value that can't be copied can't leave the process either.
        return value


_CONTAINERS: dict[type, Callable[[Any], Any]] = {
    OrderedDict: _copied_dict,
    bytearray: bytearray,
    defaultdict: _copied_dict,
    deque: _copied_deque,
    dict: _copied_dict,
    frozenset: _copied_frozenset,
    list: _copied_list,
    set: _copied_set,
}


def _frozen_fields(cls: type, value: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a frozen class; None for other classes."""
    if (names := getattr(cls, "__struct_fields__", None)) is not None:
        return tuple(names) if cls.__struct_config__.frozen else None  # type: ignore[attr-defined]
    if (parameters := getattr(cls, "__dataclass_params__", None)) is not None:
        return tuple(cls.__dataclass_fields__) if parameters.frozen else None  # type: ignore[attr-defined]
    import attrs

    if not attrs.has(cls) or cls.__setattr__ is object.__setattr__:
        return None
    names = tuple(attribute.name for attribute in attrs.fields(cls))
    try:
        for name in names[:1]:
            setattr(value, name, getattr(value, name))
    except attrs.exceptions.FrozenInstanceError:
        return names
    except Exception:
        return None
    return None


def _unless_immutable(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a function that copies an instance of a frozen class only if one of its fields can be changed."""

    def copied(value: Any) -> Any:
        for name in names:
            if _is_mutable(getattr(value, name, None)):
                return _deep(value)
        return value

    return copied


# Methods by which a class says how its instances are copied or pickled, in place of those of `object`.
_PICKLED_BY = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
_COPIED_BY = ("__copy__", "__deepcopy__", "__getnewargs__", "__getnewargs_ex__")


def _is_plain(cls: type) -> bool:
    """Return True if the state of an instance is its `__dict__`, and nothing else says how it is copied."""
    if not _is_written_in_python(cls) or any(_is_own(cls, name) for name in _PICKLED_BY):
        return False
    return cls.__dictoffset__ != 0 and not any(base.__dict__.get("__slots__") for base in cls.__mro__)


def _slots(cls: type) -> tuple[str, ...] | None:
    """Return the names of the slots of a class whose instances have nothing but slots; None for other classes."""
    if not _is_written_in_python(cls) or cls.__dictoffset__ != 0:
        return None
    # attrs defines both methods of pickling for a class with slots.
    is_of_attrs = "__attrs_attrs__" in cls.__dict__
    if any(_is_own(cls, name) for name in (_PICKLED_BY[:2] if is_of_attrs else _PICKLED_BY)):
        return None
    own = [base.__dict__.get("__slots__", ()) for base in cls.__mro__]
    names = [name for slots in own for name in ((slots,) if isinstance(slots, str) else slots)]
    return tuple(name for name in names if name != "__weakref__" and not name.startswith("__"))


def _is_written_in_python(cls: type) -> bool:
    if _is_own(cls, "__new__") or any(hasattr(cls, name) for name in _COPIED_BY):
        return False
    try:
        # Python refuses it for a class that is written in C, or derived from one.
        object.__new__(cls)
    except TypeError:
        return False
    return True


def _is_own(cls: type, name: str) -> bool:
    return getattr(cls, name, None) is not getattr(object, name, None)


def _copied_slots(names: tuple[str, ...]) -> Callable[[Any], Any]:
    def copied(value: Any) -> Any:
        made = object.__new__(type(value))
        for name in names:
            if hasattr(value, name):
                object.__setattr__(made, name, _copy(getattr(value, name)))
        return made

    return copied
