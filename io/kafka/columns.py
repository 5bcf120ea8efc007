"""Decoding of values as columns, for operations that understand them.

Only fields that are used become columns, and only if each value is of the type that its schema says, so that elements
that are made of the columns are those that the deserializer gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from ...frozen import frozen
from ...sdk.columns.column_elements import Elements, Pairs, as_nones, as_rows
from ...sdk.dofn.columns_dofn import ColumnsDoFn
from ...sdk.dofn.dofn import MapDoFn
from ..record_types import arrow_types_of
from .decoding import Decoding
from .registry.formats import RegistryReader

# Of the Arrow types of columns, the types of their values.
_PYTHON_TYPES: dict[str, type] = {"string": str, "int64": int, "double": float, "bool": bool, "binary": bytes}


class ValueFields(Protocol):
    """The fields of the values that a deserializer gives."""

    @property
    def types(self) -> Mapping[str, str]:
        """The fields that columns can hold, by name, with their Arrow types."""

    @property
    def names(self) -> Sequence[str] | None:
        """All fields, in their order, if values are Rows."""

    def decoded(self, data: list[bytes], names: Sequence[str]) -> list[list[Any]]:
        """Return fields of the values for their bytes.  Raises an exception if one can't be decoded."""

    def of_values(self, values: list[Any], names: Sequence[str]) -> list[list[Any]]:
        """Return fields of decoded values.  Raises an exception if one has other fields."""


@frozen
class RowFields:
    """The fields of the Rows of a registry."""

    reader: RegistryReader

    @property
    def types(self) -> Mapping[str, str]:
        return self.reader.column_types

    @property
    def names(self) -> Sequence[str] | None:
        return self.reader.field_names

    def decoded(self, data: list[bytes], names: Sequence[str]) -> list[list[Any]]:
        return self.reader.field_values(data, names)

    def of_values(self, values: list[Any], names: Sequence[str]) -> list[list[Any]]:
        fields = [row.as_dict() for row in values]
        return [[own[name] for own in fields] for name in names]


@frozen
class DeclaredFields:
    """The fields of a class that a function is annotated to return."""

    decode: Any
    kind: type
    names: None = None

    @property
    def types(self) -> Mapping[str, str]:
        return arrow_types_of(self.kind)

    def decoded(self, data: list[bytes], names: Sequence[str]) -> list[list[Any]]:
        return self.of_values(list(map(self.decode, data)), names)

    def of_values(self, values: list[Any], names: Sequence[str]) -> list[list[Any]]:
        if {*map(type, values)} - {self.kind}:
            raise TypeError(f"expected values of the class {self.kind.__name__} only")
        return [[getattr(value, name) for value in values] for name in names]


def fields_of(decode: Any, declared: Any) -> ValueFields | None:
    """Return the fields of a deserializer's values that columns can hold; None if there are none.

    Args:
      declared: the class that a function is annotated to return; others have no known fields.
    """
    if find_spec("pyarrow") is None:
        return None
    fields: ValueFields | None = None
    if isinstance(decode, RegistryReader):
        fields = RowFields(decode)
    elif decode is not None and isinstance(declared, type):
        fields = DeclaredFields(decode, declared)
    try:
        return fields if fields is not None and fields.types else None
    except (NameError, TypeError):
        # Annotations that can't be resolved.
        return None


class DecodingDoFn(MapDoFn):
    """Decodes pairs whose values have known fields."""

    def __init__(self, decoding: Decoding, fields: ValueFields) -> None:
        super().__init__(decoding.pair)
        self.decoding = decoding
        self.fields = fields

    def giving_columns(self, fields: tuple[str, ...] | None) -> ColumnsDoFn | None:
        names = self.fields.names if fields is None else fields
        types = self.fields.types
        if not names or not {*names} <= {*types}:
            return None
        return DecodingToColumns(self, {name: types[name] for name in names})


class DecodingToColumns(ColumnsDoFn):
    """Decodes pairs to columns of fields of the values.  The keys, which nothing looks at, become None.

    Args:
      fn: decodes one pair.
      used: the fields that are used, by name, with their Arrow types.
    """

    def __init__(self, fn: DecodingDoFn, used: Mapping[str, str]) -> None:
        super().__init__(fn)
        self.decoding = fn.decoding
        self.fields = fn.fields
        self.used = dict(used)

    def columns(self, values: list[Any]) -> tuple[Any, Elements] | None:
        decode_key = self.decoding.key
        try:
            if decode_key is not None:
                for key, *_ in values:
                    if key is not None:
                        decode_key(key)
            return self._columns(self.fields.decoded([record[1] for record in values], list(self.used)))
        except Exception:
            # Each element is decoded again by itself, so that its error is known.
            return None

    def columns_of(self, outputs: list[Any]) -> tuple[Any, Elements] | None:
        try:
            return self._columns(self.fields.of_values([value for _, value in outputs], list(self.used)))
        except Exception:
            return None

    def _columns(self, found: list[list[Any]]) -> tuple[Any, Elements] | None:
        """Return columns of fields; None for values of other types than the schema's."""
        import pyarrow

        columns = []
        for values, kind in zip(found, self.used.values(), strict=True):
            if {*map(type, values)} - {_PYTHON_TYPES[kind], type(None)}:
                return None
            columns.append(pyarrow.array(values, kind))
        return pyarrow.RecordBatch.from_arrays(columns, list(self.used)), _PAIRS


_PAIRS = Pairs(0, as_nones, as_rows)
