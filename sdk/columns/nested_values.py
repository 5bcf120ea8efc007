"""Values of nested Arrow types as Python's own: dicts of maps, and tuples of structs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .column_elements import values_of

# The names of the fields of a struct that stands for a tuple.
_ITEM = "item"


def struct_of_tuple(kinds: Sequence[Any]) -> Any:
    """Return the type of tuples whose items have these types.

    >>> import pyarrow
    >>> struct_of_tuple([pyarrow.int64(), pyarrow.string()])
    StructType(struct<item0: int64, item1: string>)
    """
    import pyarrow

    return pyarrow.struct([(f"{_ITEM}{i}", kind) for i, kind in enumerate(kinds)])


def python_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array, with a dict for each map and a tuple for each struct of a tuple.

    >>> import pyarrow
    >>> python_values(pyarrow.array([{"a": (1, "x")}], pyarrow.map_("string", struct_of_tuple(["int64", "string"]))))
    [{'a': (1, 'x')}]
    """
    convert = _converter(column.type)
    values = values_of(column)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def is_converted(kind: Any) -> bool:
    """Return True if values of a type differ from those that Arrow gives."""
    return _converter(kind) is not None


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """Return the function of a value that isn't null; None if values are as Arrow gives them."""
    from pyarrow import types

    if types.is_map(kind):
        of_key, of_item = (_of_part(part) for part in (kind.key_type, kind.item_type))
        return lambda pairs: {of_key(key): of_item(item) for key, item in pairs}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if _converter(kind.value_type) is None:
            return None
        of_value = _of_part(kind.value_type)
        return lambda items: list(map(of_value, items))
    if not types.is_struct(kind):
        return None
    names = [field.name for field in kind]
    parts = {field.name: _of_part(field.type) for field in kind}
    if names == [f"{_ITEM}{i}" for i in range(len(names))]:
        return lambda fields: tuple(parts[name](value) for name, value in fields.items())
    if not any(_converter(field.type) for field in kind):
        return None
    return lambda fields: {name: parts[name](value) for name, value in fields.items()}


def _of_part(kind: Any) -> Callable[[Any], Any]:
    convert = _converter(kind)
    return (lambda value: value) if convert is None else (lambda value: None if value is None else convert(value))
