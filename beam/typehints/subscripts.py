"""Beam's names for types that take parameters in brackets, and questions about types."""

from __future__ import annotations

import collections.abc as abc
import typing
from typing import Any as AnyType
from typing import TypeGuard

from ...sdk.elements.element_wrappers import WindowedValue as WindowedElement
from .constraints import (
    ABCSequenceTypeConstraint,
    AnyTypeConstraint,
    CollectionTypeConstraint,
    CompositeTypeHint,
    DictConstraint,
    FrozenSetTypeConstraint,
    IterableTypeConstraint,
    IteratorTypeConstraint,
    ListConstraint,
    MappingTypeConstraint,
    SequenceTypeConstraint,
    SetTypeConstraint,
    TupleConstraint,
    TupleSequenceConstraint,
    TypeConstraint,
    TypeVariable,
    UnionConstraint,
    fits,
    shown,
    union_of_types,
)
from .native_types import convert_to_beam_type


class WindowedTypeConstraint(SequenceTypeConstraint):
    """A value with its timestamp and windows."""

    name, kind = "WindowedValue", WindowedElement

    def _check_parts(self, instance: AnyType) -> None:
        self._check_part(self.inner_type, instance.value, "the value")

    def to_python_type(self) -> AnyType:
        return WindowedElement


def validate_composite_type_param(type_param: AnyType, error_msg_prefix: str) -> None:
    """Raise `TypeError` unless the parameter of a hint is a class, a constraint, None or a hint of `typing`."""
    is_generic = typing.get_origin(type_param) is not None
    if type_param is not None and not is_generic and not isinstance(type_param, (type, TypeConstraint)):
        raise TypeError(f"{error_msg_prefix} must be a class or a type constraint; {shown(type_param)} was given")


def _parameter(given: AnyType, name: str) -> AnyType:
    if not isinstance(given, (str, typing.ForwardRef)):
        given = normalize(given) if isinstance(given, type) else convert_to_beam_type(given)
    validate_composite_type_param(given, f"The parameter of {name}")
    return given


def hint_of_one(kind: type[TypeConstraint], native: AnyType) -> CompositeTypeHint:
    """Return the name that takes one type in brackets, and makes a constraint of the class `kind`.

    Args:
      native: the class for the hint without a type.

    >>> hint_of_one(ListConstraint, list)[int]
    List[<class 'int'>]
    """

    def make(given: AnyType) -> AnyType:
        return kind(_parameter(given, kind.name))

    return CompositeTypeHint(kind.name, make, native, kind)


def _hint_of_two(name: str, kind: type[TypeConstraint], native: AnyType) -> CompositeTypeHint:
    def make(given: AnyType) -> AnyType:
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"{name} takes two types, {name}[.., ..]; got {given!r}")
        return kind(*(_parameter(one, name) for one in given))

    return CompositeTypeHint(name, make, native, kind)


def _make_tuple(given: AnyType) -> AnyType:
    items = given if isinstance(given, tuple) else (given,)
    if len(items) == 2 and items[1] is Ellipsis:
        return TupleSequenceConstraint(_parameter(items[0], "Tuple"))
    return TupleConstraint(*(_parameter(item, "Tuple") for item in items))


def _make_union(given: AnyType) -> AnyType:
    if not isinstance(given, (tuple, list, set, frozenset)):
        raise TypeError(f"Union takes several types, Union[.., ..]; got {given!r}")
    return union_of_types(_parameter(one, "Union") for one in given)


def _make_optional(given: AnyType) -> AnyType:
    if isinstance(given, abc.Sequence):
        raise TypeError(f"Optional takes one type; got {given!r}")
    return Union[given, type(None)]


def _make_generator(given: AnyType) -> AnyType:
    # Generator[yielded, sent, returned]
    return Iterator[given[0] if isinstance(given, tuple) and len(given) == 3 else given]


Any: AnyType = AnyTypeConstraint()
List: AnyType = hint_of_one(ListConstraint, list)
Set: AnyType = hint_of_one(SetTypeConstraint, set)
FrozenSet: AnyType = hint_of_one(FrozenSetTypeConstraint, frozenset)
Iterable: AnyType = hint_of_one(IterableTypeConstraint, abc.Iterable)
Sequence: AnyType = hint_of_one(ABCSequenceTypeConstraint, abc.Sequence)
Collection: AnyType = hint_of_one(CollectionTypeConstraint, abc.Collection)
Iterator: AnyType = hint_of_one(IteratorTypeConstraint, abc.Iterator)
Generator: AnyType = CompositeTypeHint("Generator", _make_generator, abc.Generator)
WindowedValue: AnyType = hint_of_one(WindowedTypeConstraint, WindowedElement)
Dict: AnyType = _hint_of_two("Dict", DictConstraint, dict)
Mapping: AnyType = _hint_of_two("Mapping", MappingTypeConstraint, abc.Mapping)
KV: AnyType = _hint_of_two("KV", TupleConstraint, tuple)
Tuple: AnyType = CompositeTypeHint("Tuple", _make_tuple, tuple, TupleConstraint, TupleSequenceConstraint)
Union: AnyType = CompositeTypeHint("Union", _make_union, AnyType, UnionConstraint)
Optional: AnyType = CompositeTypeHint("Optional", _make_optional, AnyType)

# Beam's names of what takes the types.
ListHint, SetHint, FrozenSetHint, IterableHint, CollectionHint = List, Set, FrozenSet, Iterable, Collection
IteratorHint, GeneratorHint, DictHint, MappingHint, KVHint = Iterator, Generator, Dict, Mapping, KV
TupleHint, UnionHint, OptionalHint = Tuple, Union, Optional

_BARE: typing.Final[dict[AnyType, AnyType]] = {
    list: List[Any],
    tuple: Tuple[Any, ...],
    set: Set[Any],
    frozenset: FrozenSet[Any],
    dict: Dict[Any, Any],
}


def normalize(x: AnyType, none_as_type: bool = False) -> AnyType:
    """Return the constraint for a class or a hint of `typing`; other classes stay what they are.

    Args:
      none_as_type: replaces None by its class.

    >>> normalize(list), normalize(int)
    (List[Any], <class 'int'>)
    """
    if x is None:
        return type(None) if none_as_type else None
    if isinstance(x, type) and x in _BARE:
        return _BARE[x]
    if x is abc.Callable:
        return Any
    return x if isinstance(x, CompositeTypeHint) else convert_to_beam_type(x)


def is_consistent_with(sub: AnyType, base: AnyType) -> bool:
    """Return whether values of the type `sub` may be used as `base`.

    >>> is_consistent_with(List[int], Iterable[float]), is_consistent_with(Optional[int], int)
    (True, False)
    """
    return fits(normalize(sub, True), normalize(base, True))


is_subhint = is_consistent_with


def is_typing_generic(typ: AnyType) -> bool:
    """Return whether a hint is one of `typing` with type parameters."""
    is_of_python = getattr(typ, "__module__", "") in ("typing", "builtins", "collections.abc")
    return is_of_python and typing.get_origin(typ) is not None


def is_nullable(typehint: AnyType) -> TypeGuard[UnionConstraint]:
    """Return whether a type is a union of one type and None's."""
    return isinstance(typehint, UnionConstraint) and len(typehint.parameters) == 2 and type(None) in typehint.parameters


def get_concrete_type_from_nullable(typehint: AnyType) -> AnyType:
    """Return the other type of a union with None's."""
    if not is_nullable(typehint):
        raise TypeError(f"expected Optional[..], got {typehint!r}")
    return next(one for one in typehint.parameters if one is not type(None))


def get_yielded_type(type_hint: AnyType) -> AnyType:
    """Return the type of the elements of an iterable.  Raises `ValueError` for other types."""
    if isinstance(type_hint, typing.TypeVar) or type_hint is AnyType:
        return AnyType
    if isinstance(type_hint, AnyTypeConstraint):
        return Any if isinstance(type_hint, TypeVariable) else type_hint
    type_hint = normalize(type_hint)
    if isinstance(type_hint, UnionConstraint):
        return union_of_types(map(get_yielded_type, type_hint.parameters))
    is_iterable = isinstance(type_hint, (SequenceTypeConstraint, IteratorTypeConstraint))
    if is_iterable and not isinstance(type_hint, WindowedTypeConstraint):
        return type_hint.parameters[0]
    if isinstance(type_hint, TupleConstraint):
        return Union[type_hint.parameters]
    raise ValueError(f"{type_hint!r} is not iterable")


def coerce_to_kv_type(
    element_type: AnyType, label: str | None = None, side_input_producer: str | None = None
) -> AnyType:
    """Return the type as one of pairs.  Raises `ValueError` for a type that has no pairs."""
    where = f"side input from {side_input_producer}" if side_input_producer else f"input to {label}"
    if isinstance(element_type, AnyTypeConstraint):
        return KV[Any, Any]
    if isinstance(element_type, TupleConstraint) and len(element_type.parameters) == 2:
        return element_type
    if isinstance(element_type, UnionConstraint):
        pairs = [coerce_to_kv_type(one, label, side_input_producer) for one in element_type.parameters]
        return KV[
            Union[tuple(pair.parameters[0] for pair in pairs)], Union[tuple(pair.parameters[1] for pair in pairs)]
        ]
    raise ValueError(f"{where}: {element_type!r} isn't compatible with pairs, KV[.., ..]")


def key_value_types(kv_type: AnyType) -> tuple[AnyType, AnyType]:
    """Return the types of a pair's key and value; `Any` for both of another type."""
    if isinstance(kv_type, TupleConstraint) and len(kv_type.parameters) == 2:
        return kv_type.parameters[0], kv_type.parameters[1]
    return Any, Any
