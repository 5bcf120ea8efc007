"""Conversion between the hints of `typing` and Beam's constraints."""

from __future__ import annotations

import collections
import collections.abc as abc
import datetime
import types
import typing
from decimal import Decimal
from typing import Any, Final, ForwardRef, NewType, TypeVar, get_args, get_origin
from uuid import UUID

from ...sdk.elements.row import Row
from ...sdk.typehints.row_classes import is_named_tuple, is_row_dataclass
from ...sdk.typehints.schema import ARROW_NAMES, is_hint, item_of, schemas_of
from . import constraints as beam
from .constraints import CompositeTypeHint, TypeConstraint
from .row_type import GeneratedClassRowTypeConstraint

# Beam's names.
match_is_named_tuple = is_named_tuple
match_dataclass_for_row = is_row_dataclass

_T = beam.TypeVariable("T")

_T_CO = beam.TypeVariable("T_co")
_KEY, _VALUE, _VALUE_CO = beam.TypeVariable("KT"), beam.TypeVariable("VT"), beam.TypeVariable("VT_co")

# By the class of a hint: the constraint, and its type parameters for a hint without any.
_CONSTRAINTS: Final[dict[Any, tuple[type[TypeConstraint], tuple[TypeConstraint, ...]]]] = {
    list: (beam.ListConstraint, (_T,)),
    set: (beam.SetTypeConstraint, (_T,)),
    abc.Set: (beam.SetTypeConstraint, (_T,)),
    abc.MutableSet: (beam.SetTypeConstraint, (_T,)),
    frozenset: (beam.FrozenSetTypeConstraint, (_T,)),
    tuple: (beam.TupleSequenceConstraint, (_T,)),
    abc.Iterable: (beam.IterableTypeConstraint, (_T_CO,)),
    abc.Iterator: (beam.IteratorTypeConstraint, (_T_CO,)),
    abc.Generator: (beam.IteratorTypeConstraint, (_T_CO,)),
    abc.Sequence: (beam.ABCSequenceTypeConstraint, (_T_CO,)),
    abc.Collection: (beam.CollectionTypeConstraint, (_T_CO,)),
    dict: (beam.DictConstraint, (_KEY, _VALUE)),
    collections.defaultdict: (beam.DictConstraint, (_KEY, _VALUE)),
    collections.OrderedDict: (beam.DictConstraint, (_KEY, _VALUE)),
    abc.Mapping: (beam.MappingTypeConstraint, (_KEY, _VALUE_CO)),
}

# By the name of Arrow's type.
_CLASSES: Final[dict[str, Any]] = {name: kind for kind, name in ARROW_NAMES.items()} | {
    "date32[day]": datetime.date,
    "time64[us]": datetime.time,
    "extension<arrow.uuid>": UUID,
}
_BY_PREFIX: Final[dict[str, Any]] = {"timestamp[us": datetime.datetime, "decimal128(": Decimal}


def convert_to_beam_type(typ: Any) -> Any:
    """Return Beam's constraint for a hint of `typing`; `Any` for one that Beam has no constraint for.

    >>> convert_to_beam_type(dict[str, list[int]])
    Dict[<class 'str'>, List[<class 'int'>]]
    """
    if typ is None or isinstance(typ, (TypeConstraint, CompositeTypeHint)):
        return typ
    if isinstance(typ, TypeVar):
        return beam.TypeVariable(typ.__name__)
    if typ is Any or isinstance(typ, (str, ForwardRef, NewType)):
        return beam.AnyTypeConstraint()
    if typ in (typing.Union, typing.Optional):
        raise ValueError(f"{typ!r} needs types, as in Union[int, str]")
    if typing.is_typeddict(typ):
        return beam.DictConstraint(str, beam.AnyTypeConstraint())
    origin, args = get_origin(typ), get_args(typ)
    if origin is abc.Callable:
        return beam.AnyTypeConstraint()
    if origin is None:
        if isinstance(typ, type) and typ in _CONSTRAINTS:
            return _constraint(typ, ())
        # `typing.Callable` and the like are no classes.
        is_special = getattr(typ, "__module__", "") == "typing" and callable(typ)
        return beam.AnyTypeConstraint() if is_special else typ
    if origin in (typing.Union, types.UnionType):
        return beam.union_of_types(map(convert_to_beam_type, args))
    if origin is typing.Annotated:
        return _row_type(typ)
    if origin is collections.Counter:
        return beam.DictConstraint(convert_to_beam_type(args[0]), int)
    if origin in _CONSTRAINTS:
        # `tuple[()]` is the empty tuple, and `typing.Tuple` any.
        return _constraint(origin, args, is_empty=origin is tuple and typ not in (tuple, typing.Tuple))  # noqa: UP006
    # A user's generic class, `TaggedOutput[..]` and `re.Match[str]` stay as they are.
    is_class = isinstance(origin, type) and origin.__module__ not in ("typing", "collections.abc")
    return typ if is_class else beam.AnyTypeConstraint()


def _row_type(typ: Any) -> Any:
    """Return the constraint of rows for a hint with a schema; other hints stay what they are."""
    found = schemas_of(typ)
    if len(found) != 1 or not isinstance(found[0][0], type) or not issubclass(found[0][0], Row):
        return typ
    fields = [(name, _of_field(kind)) for name, kind in found[0][1].fields]
    rows = GeneratedClassRowTypeConstraint(fields)
    rows.hint = typ
    return rows


def _of_field(kind: Any) -> Any:
    """Return the constraint of a field of a `Schema`."""
    if is_hint(kind):
        return convert_to_beam_type(kind)
    name = str(kind)
    item = item_of(name)
    if item is not None:
        return beam.ListConstraint(_of_field(item))
    unknown = beam.AnyTypeConstraint()
    return next((kind for prefix, kind in _BY_PREFIX.items() if name.startswith(prefix)), _CLASSES.get(name, unknown))


def _constraint(kind: Any, args: tuple[Any, ...], is_empty: bool = False) -> TypeConstraint:
    make, unknown = _CONSTRAINTS[kind]
    if not args:
        return beam.TupleConstraint() if is_empty else make(*unknown)
    if kind is tuple and args[-1] is not Ellipsis:
        make = beam.TupleConstraint
    elif kind in (tuple, abc.Generator):
        args = args[:1]
    return make(*map(convert_to_beam_type, args))


def convert_to_python_type(typ: Any) -> Any:
    """Return the hint of `typing` for a constraint; classes stay what they are.

    >>> from penstock.typehints import KV, Iterable
    >>> convert_to_python_type(KV[str, Iterable[int]])
    tuple[str, collections.abc.Iterable[int]]
    """
    return typ.to_python_type() if isinstance(typ, (TypeConstraint, CompositeTypeHint)) else typ


def convert_to_beam_types(args: Any) -> Any:
    """Return the list or dict of hints with each one converted by `convert_to_beam_type`."""
    return _each(convert_to_beam_type, args)


def convert_to_python_types(args: Any) -> Any:
    """Return the list or dict of constraints with each one converted by `convert_to_python_type`."""
    return _each(convert_to_python_type, args)


def _each(convert: Any, args: Any) -> Any:
    if isinstance(args, dict):
        return {name: convert(arg) for name, arg in args.items()}
    return [convert(arg) for arg in args]


_TYPING: Final[dict[Any, Any]] = {
    dict: typing.Dict,  # noqa: UP006
    list: typing.List,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
}


def convert_builtin_to_typing(typ: Any) -> Any:
    """Return `list[int]` and the like as `typing.List[int]`, its type parameters included."""
    origin = get_origin(typ)
    if origin not in _TYPING:
        return typ
    return _TYPING[origin][tuple(convert_builtin_to_typing(arg) for arg in get_args(typ))]


def convert_typing_to_builtin(typ: Any) -> Any:
    """Return `typing.List[int]` and the like as `list[int]`, its type parameters included."""
    origin = get_origin(typ)
    if origin not in _TYPING:
        return typ
    return origin[tuple(convert_typing_to_builtin(arg) for arg in get_args(typ))]


def convert_collections_to_typing(typ: Any) -> Any:
    """Return `collections.abc.Iterable[int]` and the like as `typing.Iterable[int]`."""
    origin = get_origin(typ)
    is_abstract = getattr(origin, "__module__", "") == "collections.abc" and hasattr(typing, origin.__name__)
    return getattr(typing, origin.__name__)[get_args(typ)] if is_abstract else typ


def is_any(typ: Any) -> bool:
    """Return whether a hint is `typing.Any`."""
    return typ is Any


def is_new_type(typ: Any) -> bool:
    """Return whether a hint is a `NewType`."""
    return isinstance(typ, NewType)


def is_forward_ref(typ: Any) -> bool:
    """Return whether a hint is the name of a class, unresolved."""
    return isinstance(typ, ForwardRef)


def is_builtin(typ: Any) -> bool:
    """Return whether a hint is `list`, `dict`, `tuple`, `set` or `frozenset` with type parameters."""
    return get_origin(typ) in _TYPING


def extract_optional_type(typ: Any) -> Any:
    """Return the first other type of a union with None; None for other hints."""
    args = get_args(typ) if get_origin(typ) in (typing.Union, types.UnionType) else ()
    return next((arg for arg in args if arg is not type(None)), None) if type(None) in args else None
