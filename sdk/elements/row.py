"""Row: an element with named fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import attrs

from ...persistence import restores


class Row:
    """Named values, in the order in which they are given.

    Rows are equal if their fields have the same names, values and order.  A row has a hash, and so can be a key, if all
    of its values have one.

    >>> row = Row(name="ann", age=7)
    >>> row.age, row._fields, list(row)
    (7, ('name', 'age'), ['ann', 7])
    >>> row
    Row(name='ann', age=7)
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    @property
    def _fields(self) -> tuple[str, ...]:
        """Return the names of the fields, as a named tuple does."""
        return tuple(self.__dict__)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a new dictionary.

        >>> Row(a=1, b=2).as_dict()
        {'a': 1, 'b': 2}
        """
        return dict(self.__dict__)

    # The name of the same method of named tuples.
    _asdict = as_dict

    def __getattr__(self, name: str) -> Any:
        # Called for missing names only.  Declares to type checkers that a row may have any field.
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"the row has no field {name!r}; it has {', '.join(self.__dict__) or 'none'}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__.values())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and list(self.__dict__.items()) == list(other.__dict__.items())

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.items()))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_row, (self.as_dict(),) if type(self) is Row else (self.as_dict(), type(self)))


@restores("row", 1, Row)
def _row(fields: dict[str, Any], cls: type[Row] = Row) -> Row:
    return cls(**fields)


def rows_of_dicts(dicts: list[dict[str, Any]]) -> list[Row]:
    """Return dictionaries as Rows, which keep them as their fields.

    >>> rows_of_dicts([{"a": 1}])
    [Row(a=1)]
    """
    rows = []
    new = object.__new__
    for fields in dicts:
        # Without __init__, which takes two thirds of the time to copy the fields into another dictionary.
        row = new(Row)
        row.__dict__ = fields
        rows.append(row)
    return rows


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a value with named fields, by name; None for any other value.

    Such values are dicts, Rows, named tuples, dataclasses, and instances of attrs classes and of `msgspec.Struct`s.

    >>> fields_of(Row(name="Ada", age=36)), fields_of(3)
    ({'name': 'Ada', 'age': 36}, None)
    """
    if isinstance(value, dict):
        return value
    if hasattr(value, "_asdict"):
        return dict(value._asdict())
    if isinstance(value, type):
        return None
    # Of a `msgspec.Struct`.  Importing msgspec takes a tenth of the time of importing penstock.
    if (names := getattr(value, "__struct_fields__", None)) is not None:
        return {name: getattr(value, name) for name in names}
    if attrs.has(type(value)):
        return attrs.asdict(value, recurse=False)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None
