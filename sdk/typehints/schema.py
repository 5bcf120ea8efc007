"""Schemas: fields of elements that are known when the pipeline is built.

A schema is part of a type hint, `Annotated[Row, Schema]`, which is otherwise the hint of the elements' class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, get_origin

from .describe import describe
from .simplified import class_and_args, members, simplified

# The names of Arrow's types for those of Python.
ARROW_NAMES: Mapping[Any, str] = {int: "int64", float: "double", str: "string", bool: "bool", bytes: "binary"}


_LIST = "list<item: "


def list_of(kind: str) -> str:
    """Return the name of Arrow's type of lists.

    >>> list_of("int64"), item_of("list<item: int64>"), item_of("int64")
    ('list<item: int64>', 'int64', None)
    """
    return f"{_LIST}{kind}>"


def item_of(kind: str) -> str | None:
    """Return the name of the type of a list's items; None for the name of another type."""
    return kind[len(_LIST) : -1] if kind.startswith(_LIST) else None


# The name of Arrow's type of datetimes with a time zone.
UTC_TIMES = "timestamp[us, tz=UTC]"
# The digits of decimals: the most that Arrow's decimal128 has.
DIGITS = 38


def decimals_of(scale: int) -> str:
    """Return the name of Arrow's type of decimals.

    >>> decimals_of(9), scale_of("decimal128(38, 9)"), scale_of("int64")
    ('decimal128(38, 9)', 9, None)
    """
    return f"decimal128({DIGITS}, {scale})"


def scale_of(kind: str) -> int | None:
    """Return the number of decimals of a type of decimals; None for the name of another type."""
    prefix = f"decimal128({DIGITS}, "
    return int(kind[len(prefix) : -1]) if kind.startswith(prefix) else None


class Schema:
    """The fields of elements.

    Args:
      fields: names, with the type of each: a `pyarrow.DataType`, the name of one, a type hint, or None if it is
        unknown.
      others: returns True if some of the elements may have a field that isn't among these; None if none has.
      unknown: by the name of a field without a type, why it has none.

    >>> schema = Schema((("item", "string"), ("price", None)))
    >>> schema.names, str(schema)
    (('item', 'price'), 'item: string, price')
    """

    __slots__ = ("fields", "others", "unknown")

    def __init__(
        self,
        fields: tuple[tuple[str, Any], ...],
        others: Callable[[str], bool] | None = None,
        unknown: Mapping[str, str] | None = None,
    ) -> None:
        self.fields = fields
        self.others = others
        self.unknown = unknown or {}

    # `Annotated` returns a hint that it has made before for an equal schema.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return tuple((name, str(kind)) for name, kind in self.fields), self.others

    def __repr__(self) -> str:
        return f"Schema(fields={self.fields!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(name for name, _ in self.fields)

    def may_have(self, name: str) -> bool:
        """Return True if an element may have a field of this name."""
        return name in self.names or (self.others is not None and self.others(name))

    def __str__(self) -> str:
        return ", ".join(name if kind is None else f"{name}: {_shown(kind)}" for name, kind in self.fields)


def is_hint(kind: Any) -> bool:
    """Return True for a type of a field that is a type hint, and no type of Arrow.

    >>> is_hint(dict[str, int]), is_hint("int64"), is_hint(Any)
    (True, False, False)
    """
    return kind is not Any and (isinstance(kind, type) or get_origin(kind) is not None)


def _shown(kind: Any) -> str:
    return describe(kind) if is_hint(kind) else str(kind)


def with_schema(
    hint: Any,
    fields: Iterable[tuple[str, Any]],
    others: Callable[[str], bool] | None = None,
    unknown: Mapping[str, str] | None = None,
) -> Any:
    """Return the hint of elements with these fields; see `Schema`.

    >>> schemas_of(with_schema(dict, [("item", "string")]))
    [(<class 'dict'>, Schema(fields=(('item', 'string'),)))]
    """
    return Annotated[hint, Schema(tuple(fields), others, unknown)]


def schemas_of(hint: Any) -> list[tuple[Any, Schema]]:
    """Return the class and the schema of a hint, or those of all members of a union.

    A class is None if it is unknown.  If one member has no schema, none is returned.
    """
    alternatives = members(hint) or (hint,)
    found = [
        (class_and_args(simplified(one))[0], data)
        for one in alternatives
        for data in getattr(one, "__metadata__", ())
        if isinstance(data, Schema)
    ]
    return found if len(found) == len(alternatives) else []
