"""Beam's type constraints: `List[int]`, `KV[str, Any]`, `Union[int, str]`, and the check of values against them.

Penstock itself reads the hints of `typing`.  A constraint is accepted wherever a hint is, and converted by
`TypeConstraint.to_python_type`.
"""

from __future__ import annotations

import collections.abc as abc
import types
import typing
from collections.abc import Callable as Function
from types import GenericAlias
from typing import Any as AnyType
from typing import ClassVar

from ...sdk.adapters import convert_hints
from ...sdk.errors import TypeHintError

# The error of a pipeline whose types don't fit.
TypeCheckError = TypeHintError


_HINTS = (GenericAlias, type(typing.List[int]))  # noqa: UP006


def _is_same_hint(hint: AnyType, other: AnyType) -> bool:
    """Return whether hints are the same but for their spelling: `list[int]` and `typing.List[int]`."""
    parts, others = typing.get_args(hint), typing.get_args(other)
    if hint == other or not parts:
        return bool(hint == other)
    is_same_class = typing.get_origin(hint) is typing.get_origin(other) and len(parts) == len(others)
    return is_same_class and all(map(_is_same_hint, parts, others))


class SimpleTypeHintError(TypeError):
    """A value that is no instance of the class that a hint names."""


class CompositeTypeHintError(TypeError):
    """A value that doesn't fit a constraint, such as `List[int]`."""


class TypeConstraint:
    """Base class of the constraints, with type parameters.

    >>> from penstock.typehints import List, Tuple, TypeVariable
    >>> List[int].type_check([1, 2])
    >>> List[int].type_check([1, "two"])
    Traceback (most recent call last):
    penstock.beam.typehints.constraints.CompositeTypeHintError: List[<class 'int'>]: element 1 is 'two', expected \
<class 'int'>
    >>> Tuple[int, TypeVariable("V")].match_type_variables(Tuple[int, str])
    {TypeVariable[V]: <class 'str'>}
    """

    # The name in `repr`, the class of accepted values, and the class with type parameters for `typing`'s hint.
    name: ClassVar[str]
    kind: ClassVar[AnyType] = object
    native: ClassVar[AnyType] = None

    def __init__(self, *parameters: AnyType) -> None:
        self.parameters = parameters

    def type_check(self, instance: AnyType) -> None:
        """Raise `CompositeTypeHintError` for a value that doesn't fit."""
        if not isinstance(instance, self.kind):
            raise CompositeTypeHintError(f"{self!r}: expected a {self.kind.__name__}, got {shown(instance)}")
        self._check_parts(instance)

    def _check_parts(self, instance: AnyType) -> None:
        for i, part in enumerate(instance):
            self._check_part(self.parameters[0], part, f"element {i}")

    def _check_part(self, expected: AnyType, part: AnyType, part_name: str) -> None:
        try:
            check_constraint(expected, part)
        except SimpleTypeHintError:
            raise CompositeTypeHintError(f"{self!r}: {part_name} is {part!r}, expected {expected!r}") from None
        except CompositeTypeHintError as error:
            raise CompositeTypeHintError(f"{self!r}: {part_name}: {error}") from None

    def accepts(self, other: AnyType) -> bool:
        """Return whether values of another type, which is no union, fit this one."""
        return (
            isinstance(other, type(self))
            and len(other.parameters) == len(self.parameters)
            and all(map(fits, other.parameters, self.parameters))
        )

    def match_type_variables(self, concrete_type: AnyType) -> dict[TypeVariable, AnyType]:
        """Return the types of its type variables in a concrete type of the same form; nothing for another form."""
        bindings: dict[TypeVariable, AnyType] = {}
        if isinstance(concrete_type, type(self)) and len(concrete_type.parameters) == len(self.parameters):
            for mine, other in zip(self.parameters, concrete_type.parameters):
                bindings.update(match_type_variables(mine, other))
        return bindings

    def bind_type_variables(self, bindings: abc.Mapping[AnyType, AnyType]) -> AnyType:
        """Return the constraint with its type variables replaced."""
        bound = tuple(bind_type_variables(parameter, bindings) for parameter in self.parameters)
        return self if bound == self.parameters else type(self)(*bound)

    def to_python_type(self) -> AnyType:
        """Return the hint of `typing` that says the same.

        >>> from penstock.typehints import Dict, List
        >>> Dict[str, List[int]].to_python_type()
        dict[str, list[int]]
        """
        return self.native[tuple(map(_python_type, self.parameters))]

    def visit(self, visitor: Function[[AnyType, AnyType], None], visitor_arg: AnyType) -> None:
        """Call the function with this type and, depth first, with each one inside."""
        visitor(self, visitor_arg)
        for parameter in self.parameters:
            visit_inner_types(parameter, visitor, visitor_arg)

    # Programs compare a PCollection's type with a hint of `typing`, too.
    def __eq__(self, other: object) -> bool:
        if isinstance(other, _HINTS):
            return _is_same_hint(self.to_python_type(), other)
        return type(self) is type(other) and self.parameters == getattr(other, "parameters", None)

    def __hash__(self) -> int:
        return hash((type(self), self.parameters))

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(map(repr, self.parameters))}]"


class AnyTypeConstraint(TypeConstraint):
    """The type of all values."""

    name = "Any"

    def type_check(self, instance: AnyType) -> None:
        """Accept every value."""

    def to_python_type(self) -> AnyType:
        return AnyType

    # Programs compare it with `typing.Any`, too.
    def __eq__(self, other: object) -> bool:
        return other is AnyType or type(self) is type(other)

    def __hash__(self) -> int:
        return hash(AnyType)

    def __repr__(self) -> str:
        return self.name


class TypeVariable(AnyTypeConstraint):
    """Variable that stands for one type in all places of a hint.

    >>> from penstock.typehints import KV, TypeVariable
    >>> key = TypeVariable("key")
    >>> KV[key, int].match_type_variables(KV[str, int])
    {TypeVariable[key]: <class 'str'>}
    """

    def __init__(self, name: str, use_name_in_eq: bool = True) -> None:
        super().__init__(name)
        self.name = name  # type: ignore[misc]
        self.use_name_in_eq = use_name_in_eq

    def match_type_variables(self, concrete_type: AnyType) -> dict[TypeVariable, AnyType]:
        return {self: concrete_type}

    def bind_type_variables(self, bindings: abc.Mapping[AnyType, AnyType]) -> AnyType:
        return bindings.get(self, self)

    def to_python_type(self) -> AnyType:
        return typing.TypeVar(self.name)

    def visit(self, visitor: Function[[AnyType, AnyType], None], visitor_arg: AnyType) -> None:
        visitor(self, visitor_arg)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeVariable) and self.use_name_in_eq and other.use_name_in_eq:
            return self.name == other.name
        return isinstance(other, TypeVariable)

    # Variables that ignore their names are equal to all others.
    def __hash__(self) -> int:
        return hash(TypeVariable)

    def __repr__(self) -> str:
        return f"TypeVariable[{self.name}]"


class UnionConstraint(TypeConstraint):
    """Any of several types."""

    name = "Union"

    def __init__(self, *parameters: AnyType) -> None:
        super().__init__(*sorted(parameters, key=repr))

    @property
    def union_types(self) -> list[AnyType]:
        """The alternatives."""
        return list(self.parameters)

    def type_check(self, instance: AnyType) -> None:
        reasons = []
        for alternative in self.parameters:
            try:
                check_constraint(alternative, instance)
                return
            except TypeError as error:
                reasons.append(str(error))
        raise CompositeTypeHintError("; ".join([f"{self!r}: got {shown(instance)}", *filter(None, reasons)]))

    def accepts(self, other: AnyType) -> bool:
        return any(fits(other, alternative) for alternative in self.parameters)

    def match_type_variables(self, concrete_type: AnyType) -> dict[TypeVariable, AnyType]:
        """Return the types on which all alternatives agree that accept the concrete type."""
        found = [match_type_variables(one, concrete_type) for one in self.parameters if fits(concrete_type, one)]
        agreed = dict(found[0]) if found else {}
        for bindings in found[1:]:
            agreed = {variable: kind for variable, kind in agreed.items() if bindings.get(variable) == kind}
        return agreed

    def bind_type_variables(self, bindings: abc.Mapping[AnyType, AnyType]) -> AnyType:
        return union_of_types(bind_type_variables(parameter, bindings) for parameter in self.parameters)

    def to_python_type(self) -> AnyType:
        return typing.Union[tuple(map(_python_type, self.parameters))]  # noqa: UP007 (any number of them)

    def __eq__(self, other: object) -> bool:
        if typing.get_origin(other) in (typing.Union, types.UnionType):
            return bool(self.to_python_type() == other)
        return isinstance(other, UnionConstraint) and set(self.parameters) == set(other.parameters)

    def __hash__(self) -> int:
        return hash(frozenset(self.parameters))


class IndexableTypeConstraint(TypeConstraint):
    """Base class of types of which the place says the type of a part."""


class SequenceTypeConstraint(IndexableTypeConstraint):
    """Base class of types whose elements have one type."""

    @property
    def inner_type(self) -> AnyType:
        """The type of the elements."""
        return self.parameters[0]


class ListConstraint(SequenceTypeConstraint):
    """A list."""

    name, kind, native = "List", list, list


class SetTypeConstraint(SequenceTypeConstraint):
    """A set."""

    name, kind, native = "Set", set, set


class FrozenSetTypeConstraint(SequenceTypeConstraint):
    """A frozenset."""

    name, kind, native = "FrozenSet", frozenset, frozenset


class TupleSequenceConstraint(SequenceTypeConstraint):
    """A tuple of any length, whose items have one type."""

    name, kind = "Tuple", tuple

    def accepts(self, other: AnyType) -> bool:
        if isinstance(other, TupleConstraint):
            return all(fits(item, self.inner_type) for item in other.parameters)
        return super().accepts(other)

    def to_python_type(self) -> AnyType:
        return tuple[_python_type(self.inner_type), ...]  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"Tuple[{self.inner_type!r}, ...]"


class TupleConstraint(IndexableTypeConstraint):
    """A tuple with one type for each item."""

    name, kind, native = "Tuple", tuple, tuple

    @property
    def tuple_types(self) -> tuple[AnyType, ...]:
        """The types of the items."""
        return self.parameters

    def _check_parts(self, instance: AnyType) -> None:
        if len(instance) != len(self.parameters):
            raise CompositeTypeHintError(f"{self!r}: expected {len(self.parameters)} items, got {shown(instance)}")
        for i, (expected, part) in enumerate(zip(self.parameters, instance)):
            self._check_part(expected, part, f"item {i}")


class IterableTypeConstraint(SequenceTypeConstraint):
    """An iterable.  Of an iterator, no element is checked, since that would consume it."""

    name, kind, native = "Iterable", abc.Iterable, abc.Iterable
    also_accepts: ClassVar[tuple[type[TypeConstraint], ...]] = (SequenceTypeConstraint,)

    def _check_parts(self, instance: AnyType) -> None:
        if not isinstance(instance, abc.Iterator):
            super()._check_parts(instance)

    def accepts(self, other: AnyType) -> bool:
        if isinstance(other, TupleConstraint):
            return all(fits(item, self.inner_type) for item in other.parameters)
        # A dictionary isn't, as in Beam.
        if type(other) is MappingTypeConstraint:
            return type(self) is not ABCSequenceTypeConstraint and fits(other.key_type, self.inner_type)
        kinds: tuple[type[TypeConstraint], ...] = (type(self), *self.also_accepts)
        return isinstance(other, kinds) and fits(other.parameters[0], self.inner_type)

    def match_type_variables(self, concrete_type: AnyType) -> dict[TypeVariable, AnyType]:
        if isinstance(concrete_type, TupleConstraint) and concrete_type.parameters:
            return match_type_variables(self.inner_type, union_of_types(concrete_type.parameters))
        kinds: tuple[type[TypeConstraint], ...] = (type(self), *self.also_accepts)
        is_alike = isinstance(concrete_type, kinds)
        return match_type_variables(self.inner_type, concrete_type.parameters[0]) if is_alike else {}


class ABCSequenceTypeConstraint(IterableTypeConstraint):
    """A sequence of any class."""

    name, kind, native = "Sequence", abc.Sequence, abc.Sequence
    also_accepts = (ListConstraint, TupleSequenceConstraint)


class CollectionTypeConstraint(IterableTypeConstraint):
    """A collection of any class."""

    name, kind, native = "Collection", abc.Collection, abc.Collection
    also_accepts = (
        ListConstraint,
        SetTypeConstraint,
        FrozenSetTypeConstraint,
        TupleSequenceConstraint,
        ABCSequenceTypeConstraint,
    )


class IteratorTypeConstraint(TypeConstraint):
    """The result of a generator.  It checks single values that the generator yields."""

    name, native = "Iterator", abc.Iterator

    @property
    def yielded_type(self) -> AnyType:
        """The type of what is yielded."""
        return self.parameters[0]

    def type_check(self, instance: AnyType) -> None:
        self._check_part(self.yielded_type, instance, "a yielded value")


class DictConstraint(TypeConstraint):
    """A dictionary."""

    name, kind, native = "Dict", dict, dict

    @property
    def key_type(self) -> AnyType:
        """The type of the keys."""
        return self.parameters[0]

    @property
    def value_type(self) -> AnyType:
        """The type of the values."""
        return self.parameters[1]

    def _check_parts(self, instance: AnyType) -> None:
        for key, value in instance.items():
            self._check_part(self.key_type, key, "a key")
            self._check_part(self.value_type, value, f"the value of {key!r}")


class MappingTypeConstraint(DictConstraint):
    """A mapping of any class."""

    name, kind, native = "Mapping", abc.Mapping, abc.Mapping  # type: ignore[assignment]

    def accepts(self, other: AnyType) -> bool:
        return isinstance(other, DictConstraint) and all(map(fits, other.parameters, self.parameters))


class CompositeTypeHint:
    """A name that takes type parameters in brackets, and makes a constraint of them."""

    def __init__(
        self, name: str, make: Function[[AnyType], AnyType], native: AnyType, *kinds: type[TypeConstraint]
    ) -> None:
        self._name = name
        self._make = make
        self._native = native
        self.__module__ = make.__module__  # for pickling
        # The classes of the constraints, as Beam names them: `Tuple.TupleConstraint`.
        for kind in kinds:
            setattr(self, kind.__name__, kind)

    def __getitem__(self, parameters: AnyType) -> AnyType:
        return self._make(parameters)

    def to_python_type(self) -> AnyType:
        """Return the class for the hint without parameters."""
        return self._native

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name


def _native(hint: AnyType) -> AnyType:
    return hint.to_python_type()


convert_hints(TypeConstraint, _native)
convert_hints(CompositeTypeHint, _native)


def union_of_types(types: abc.Iterable[AnyType]) -> AnyType:
    """Return the union of constraints and classes, without repetitions and nested unions."""
    flat: list[AnyType] = []
    for one in types:
        flat += one.parameters if isinstance(one, UnionConstraint) else [one]
    alternatives = _with_one_dict(list(dict.fromkeys(flat)))
    if any(type(one) is AnyTypeConstraint for one in alternatives):
        return AnyTypeConstraint()
    return alternatives[0] if len(alternatives) == 1 else UnionConstraint(*alternatives)


def _with_one_dict(types: list[AnyType]) -> list[AnyType]:
    """Return types with the dictionaries among them as one, of all their keys and values."""
    dicts = [one for one in types if type(one) is DictConstraint]
    if len(dicts) < 2:
        return types
    keys, values = (union_of_types(one.parameters[i] for one in dicts) for i in (0, 1))
    merged = DictConstraint(keys, values)
    return list(dict.fromkeys(merged if type(one) is DictConstraint else one for one in types))


def fits(sub: AnyType, base: AnyType) -> bool:
    """Return whether values of the type `sub` may be used as `base`; both are constraints or classes."""
    if sub == base or isinstance(sub, AnyTypeConstraint) or isinstance(base, AnyTypeConstraint):
        return True
    if isinstance(sub, UnionConstraint):
        return all(fits(alternative, base) for alternative in sub.parameters)
    if isinstance(base, TypeConstraint):
        return base.accepts(sub)
    if isinstance(sub, TypeConstraint):
        return base is object
    sub, base = (type(None) if one is None else one for one in (sub, base))
    if not isinstance(sub, type):
        # A class with parameters, such as `re.Pattern[str]`, is one without.
        sub = typing.get_origin(sub)
    if not isinstance(sub, type) or not isinstance(base, type):
        return False
    return issubclass(sub, base) or (base in (float, complex) and issubclass(sub, (int, float)) and sub is not base)


def check_constraint(type_constraint: AnyType, object_instance: AnyType) -> None:
    """Raise `SimpleTypeHintError` or `CompositeTypeHintError` for a value that isn't of the type."""
    if type_constraint is None:
        type_constraint = type(None)
    if isinstance(type_constraint, TypeConstraint):
        type_constraint.type_check(object_instance)
    elif isinstance(type_constraint, type) and not isinstance(object_instance, type_constraint):
        raise SimpleTypeHintError


def match_type_variables(type_constraint: AnyType, concrete_type: AnyType) -> dict[TypeVariable, AnyType]:
    """Return the types that a concrete type has in place of a constraint's type variables."""
    if not isinstance(type_constraint, TypeConstraint):
        return {}
    return type_constraint.match_type_variables(concrete_type)


def bind_type_variables(type_constraint: AnyType, bindings: abc.Mapping[AnyType, AnyType]) -> AnyType:
    """Return the constraint with its type variables replaced.

    >>> from penstock.typehints import List
    >>> bind_type_variables(List[TypeVariable("T")], {TypeVariable("T"): int})
    List[<class 'int'>]
    """
    if not isinstance(type_constraint, TypeConstraint):
        return type_constraint
    return type_constraint.bind_type_variables(bindings)


def visit_inner_types(
    type_constraint: AnyType, visitor: Function[[AnyType, AnyType], None], visitor_arg: AnyType
) -> None:
    """Call the function with the type and, depth first, with each one inside."""
    if isinstance(type_constraint, TypeConstraint):
        type_constraint.visit(visitor, visitor_arg)
    else:
        visitor(type_constraint, visitor_arg)


def _python_type(parameter: AnyType) -> AnyType:
    return parameter.to_python_type() if isinstance(parameter, TypeConstraint) else parameter


def shown(value: AnyType) -> str:
    """Return a value with its class, for messages."""
    return f"{value!r} of type {type(value).__name__}"
