"""RowTypeConstraint: Beam's type of rows, with the name and the type of each field."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import uuid4

from ...persistence import restores
from ...sdk.elements.row import Row
from ...sdk.typehints.row_classes import is_named_tuple, is_row_dataclass
from ...sdk.typehints.schema import ARROW_NAMES, list_of, with_schema
from .constraints import (
    AnyTypeConstraint,
    CompositeTypeHintError,
    ListConstraint,
    TypeConstraint,
    UnionConstraint,
    shown,
)

# The attribute of a class that holds the id of its schema.
SCHEMA_ID = "_beam_schema_id"

Options = Sequence[tuple[str, Any]]


class SchemaTypeRegistry:
    """Classes of rows, and their schemas, by the id of the schema."""

    def __init__(self) -> None:
        self.by_id: dict[str, tuple[Any, Any]] = {}
        self._ids: dict[Any, str] = {}

    def generate_new_id(self) -> str:
        """Return an id that no schema has."""
        return str(uuid4())

    def id_for(self, key: Any) -> str:
        """Return the id for fields and options, which are the same for equal ones."""
        return self._ids.setdefault(key, self.generate_new_id())

    def add(self, typing: Any, schema: Any) -> None:
        """Register the class of a schema, if the schema has an id."""
        if schema.id:
            self.by_id[schema.id] = (typing, schema)

    def add_class(self, schema_id: str, kind: Any) -> None:
        """Register a class without a schema, if the id isn't empty."""
        if schema_id:
            self.by_id.setdefault(schema_id, (kind, None))

    def get_typing_by_id(self, unique_id: str | None) -> Any:
        """Return the class for an id; None for an unknown one."""
        return self.by_id.get(unique_id, (None, None))[0] if unique_id else None

    def get_schema_by_id(self, unique_id: str | None) -> Any:
        """Return the schema for an id; None for an unknown one."""
        return self.by_id.get(unique_id, (None, None))[1] if unique_id else None


SCHEMA_REGISTRY = SchemaTypeRegistry()


class RowTypeConstraint(TypeConstraint):
    """Rows with these fields, which are instances of a class, or `Row`s.

    >>> RowTypeConstraint.from_fields([("item", str), ("price", float)])
    Row(item=<class 'str'>, price=<class 'float'>)
    """

    name: ClassVar[str] = "Row"

    def __init__(
        self,
        fields: Sequence[tuple[str, Any]],
        user_type: Any,
        schema_options: Options | None = None,
        field_options: Mapping[str, Options] | None = None,
        field_descriptions: Mapping[str, str] | None = None,
    ) -> None:
        """Args:
        fields: pairs of name and type.
        user_type: the class of the rows.
        schema_options: notes on the schema, by name.
        field_options: notes on fields, by the field's name.
        field_descriptions: texts about fields, by the field's name.
        """
        self._fields = tuple((name, RowTypeConstraint.from_user_type(kind) or kind) for name, kind in fields)
        super().__init__(*(kind for _, kind in self._fields))
        self._user_type = user_type
        # A subclass doesn't have the schema of its base.
        self._schema_id: str | None = vars(user_type).get(SCHEMA_ID) if isinstance(user_type, type) else None
        self._schema_options = list(schema_options or ())
        self._field_options = dict(field_options or {})
        self._field_descriptions = dict(field_descriptions or {})

    @staticmethod
    def from_user_type(
        user_type: Any, schema_options: Options | None = None, field_options: Mapping[str, Options] | None = None
    ) -> RowTypeConstraint | None:
        """Return the constraint for a named tuple or a dataclass; None for other types."""
        if is_named_tuple(user_type):
            fields = [(name, user_type.__annotations__[name]) for name in user_type._fields]
        elif is_row_dataclass(user_type):
            fields = [(field.name, field.type) for field in dataclasses.fields(user_type)]
        else:
            return None
        fields = _resolved(user_type, fields)
        descriptions = getattr(user_type, "_field_descriptions", None)
        if is_generated(user_type):
            schema_id = getattr(user_type, SCHEMA_ID)
            return RowTypeConstraint.from_fields(
                fields, schema_id, schema_options, field_options, field_descriptions=descriptions
            )
        return RowTypeConstraint(fields, user_type, schema_options, field_options, descriptions)

    @staticmethod
    def from_fields(
        fields: Sequence[tuple[str, Any]],
        schema_id: str | None = None,
        schema_options: Options | None = None,
        field_options: Mapping[str, Options] | None = None,
        schema_registry: SchemaTypeRegistry | None = None,
        field_descriptions: Mapping[str, str] | None = None,
    ) -> RowTypeConstraint:
        """Return the constraint of these fields, with a named tuple that is made for them."""
        return GeneratedClassRowTypeConstraint(
            fields, schema_id, schema_options, field_options, schema_registry, field_descriptions
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a row with these values."""
        return self._user_type(*args, **kwargs)

    @property
    def user_type(self) -> Any:
        """The class of the rows."""
        return self._user_type

    @property
    def schema_id(self) -> str | None:
        """The id of the schema; None as long as it has none."""
        return self._schema_id

    def set_schema_id(self, schema_id: str) -> None:
        """Give the class of the rows an id."""
        self._schema_id = schema_id
        if self._user_type is not None:
            setattr(self._user_type, SCHEMA_ID, schema_id)

    @property
    def schema_options(self) -> list[tuple[str, Any]]:
        """The notes on the schema."""
        return self._schema_options

    def field_options(self, field_name: str) -> Options:
        """Return the notes on a field."""
        return self._field_options.get(field_name, [])

    @property
    def field_descriptions(self) -> dict[str, str]:
        """The texts about fields."""
        return self._field_descriptions

    @property
    def fields(self) -> tuple[tuple[str, Any], ...]:
        """Pairs of name and type."""
        return self._fields

    def get_type_for(self, name: str) -> Any:
        """Return the type of a field; `Any` for an unknown one."""
        return dict(self._fields).get(name, AnyTypeConstraint())

    def type_check(self, instance: Any) -> None:
        """Raise `CompositeTypeHintError` for a value that is neither a `Row` nor an instance of the class."""
        if not isinstance(instance, (Row, self._user_type)):
            raise CompositeTypeHintError(f"{self!r}: expected a row, got {shown(instance)}")

    def accepts(self, other: Any) -> bool:
        return bool(self == other)

    def bind_type_variables(self, bindings: Mapping[Any, Any]) -> Any:
        return self

    def to_python_type(self) -> Any:
        return self._user_type

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields == getattr(other, "_fields", None)

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={kind!r}' for name, kind in self._fields)})"


class GeneratedClassRowTypeConstraint(RowTypeConstraint):
    """Rows with these fields, whose class is a named tuple that is made for them.

    Attributes:
      hint: the hint of `typing` that it was converted from, whose fields may have types that Beam has none for.
    """

    hint: Any = None

    def __init__(
        self,
        fields: Sequence[tuple[str, Any]],
        schema_id: str | None = None,
        schema_options: Options | None = None,
        field_options: Mapping[str, Options] | None = None,
        schema_registry: SchemaTypeRegistry | None = None,
        field_descriptions: Mapping[str, str] | None = None,
    ) -> None:
        known = SCHEMA_REGISTRY if schema_registry is None else schema_registry
        if schema_id is None:
            key = repr((list(fields), schema_options, field_options, field_descriptions))
            schema_id = known.id_for(key)
        descriptions = {name: (field_descriptions or {}).get(name, "") for name, _ in fields}
        kind = known.get_typing_by_id(schema_id)
        if kind is None:
            kind = row_class(schema_id, tuple((name, _class_of(hint)) for name, hint in fields))
            kind._field_descriptions = descriptions
            known.add_class(schema_id, kind)
        super().__init__(fields, kind, schema_options, field_options, field_descriptions)
        self._schema_id = schema_id

    def to_python_type(self) -> Any:
        if self.hint is not None:
            return self.hint
        return with_schema(Row, [(name, _arrow_name(hint)) for name, hint in self._fields])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._fields, self._schema_id, self._schema_options, self._field_options, None)
        state = {} if self.hint is None else {"hint": self.hint}
        return (RowTypeConstraint.from_fields, (*arguments, self._field_descriptions), state)


def is_generated(user_type: Any) -> bool:
    """Return whether a class was made for the fields of a schema."""
    schema_id = getattr(user_type, SCHEMA_ID, None)
    return schema_id is not None and user_type.__name__ == _class_name(schema_id)


def row_class(schema_id: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    """Return a new named tuple with these fields, whose instances can be pickled.

    >>> row_class("prices", (("item", str),))("tea")
    BeamSchema_prices(item='tea')
    """
    kind: Any = typing.NamedTuple(_class_name(schema_id), fields)  # type: ignore[misc]

    def reduced(row: Any) -> tuple[Any, ...]:
        return _generated_row, (schema_id, fields, tuple(row))

    setattr(kind, "__reduce__", reduced)  # noqa: B010 (type checkers refuse the assignment)
    setattr(kind, SCHEMA_ID, schema_id)
    return kind


@restores("generated-row", 1)
def _generated_row(schema_id: str, fields: tuple[tuple[str, Any], ...], values: tuple[Any, ...]) -> Any:
    kind = SCHEMA_REGISTRY.get_typing_by_id(schema_id)
    if kind is None:
        kind = row_class(schema_id, fields)
        SCHEMA_REGISTRY.add_class(schema_id, kind)
    return kind(*values)


def _class_name(schema_id: str) -> str:
    return f"BeamSchema_{schema_id.replace('-', '_')}"


def _class_of(hint: Any) -> Any:
    return hint.user_type if isinstance(hint, RowTypeConstraint) else hint


def _arrow_name(hint: Any) -> str | None:
    """Return the name of Arrow's type for a field, which may be null anyway; None if it is unknown."""
    origin = typing.get_origin(hint)
    members = typing.get_args(hint) if origin in (typing.Union, types.UnionType) else ()
    if isinstance(hint, UnionConstraint):
        members = tuple(hint.union_types)
    if types.NoneType in members:
        others = [each for each in members if each is not types.NoneType]
        return _arrow_name(others[0]) if len(others) == 1 else None
    is_list = origin in (list, abc.Sequence) and typing.get_args(hint)
    if isinstance(hint, ListConstraint) or is_list:
        item = _arrow_name(hint.inner_type if isinstance(hint, ListConstraint) else typing.get_args(hint)[0])
        return None if item is None else list_of(item)
    try:
        if hint in ARROW_NAMES:
            return str(ARROW_NAMES[hint])
    except TypeError:  # unhashable
        return None
    kinds = ("int8", "int16", "int32", "int64", "float32", "float64")
    if getattr(hint, "__module__", "") != "numpy" or getattr(hint, "__name__", "") not in kinds:
        return None
    return {"float32": "float", "float64": "double"}.get(hint.__name__, str(hint.__name__))


def _resolved(kind: Any, fields: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return fields with types in place of annotations that are text, if these can be resolved."""
    if not any(isinstance(hint, (str, typing.ForwardRef)) for _, hint in fields):
        return fields
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # an annotation can't be resolved
        return fields
    return [(name, hints.get(name, hint)) for name, hint in fields]
