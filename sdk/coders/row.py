"""Coders of values with named fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_type_hints

from ...frozen import frozen
from ..errors import SerializationError
from ..names.extensions import extension_point
from ..typehints.simplified import NoneType, members, simplified
from .coder import Coder, encode_varint, read_varint, take, wrong_type
from .primitive import SelfDelimitingCoder


@frozen
class SchemaFields:
    """What a `RowCoder` takes of a schema.

    Attributes:
      coders: the coders of the fields by name, in the order of their encoding.
      required: the names of the fields for which None is refused.
      constructor: returns the value for the fields, which are passed by name.
    """

    coders: Mapping[str, Coder]
    required: frozenset[str]
    constructor: Callable[..., Any]


@extension_point
def fields_of_schema(schema: Any) -> SchemaFields:
    """Return the fields of a schema."""
    raise NotImplementedError


@extension_point
def schema_of_rows(hint: Any) -> Any:
    """Return the schema of a type with named fields."""


class RowCoder(SelfDelimitingCoder):
    """Values with named fields: their number, a bit for each field that is None, and the others in order.

    Args:
      names: the fields' names; or the only argument, a schema of `typehints.schemas`.
      coders: the fields' coders.
      constructor: returns the value for the fields, which are passed by name.

    Fields may be added at the end of a class, and the last ones removed: a field without an encoded value is None.

    >>> from penstock.sdk.coders import VarIntCoder
    >>> from penstock.sdk.elements.row import Row
    >>> coder = RowCoder(["a", "b"], [VarIntCoder(), VarIntCoder()], Row)
    >>> coder.decode(coder.encode(Row(a=1, b=None)))
    Row(a=1, b=None)
    """

    def __init__(
        self, names: Any, coders: Iterable[Coder] | None = None, constructor: Callable[..., Any] | None = None
    ) -> None:
        # The names of the fields for which None is refused.
        self._required: frozenset[str] = frozenset()
        # The smallest number of bytes for the bits, if a field is None.
        self._bitmap_length = 0
        if coders is None:
            names, coders, constructor = self._of_schema(names)
        self._names = tuple(names)
        self._coders = tuple(coders)
        self._constructor: Any = constructor
        if len(self._names) != len(self._coders):
            raise SerializationError(f"RowCoder was given {len(self._names)} names and {len(self._coders)} coders")

    def _of_schema(self, schema: Any) -> tuple[list[str], list[Coder], Any]:
        fields = fields_of_schema(schema)
        self._required = fields.required
        self._bitmap_length = (len(fields.coders) + 7) // 8
        return list(fields.coders), list(fields.coders.values()), fields.constructor

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> RowCoder:
        """Return the coder of a `NamedTuple`, dataclass or attrs class, from its annotations.

        Args:
          registry: the coders of the fields' types; None for those of a schema.
        """
        hint = typehint if isinstance(typehint, type) else None
        if hint is None or registry is None:
            return cls(schema_of_rows(typehint))
        hints = get_type_hints(hint)
        fields = list(getattr(hint, "_fields", hints))
        coder = cls(fields, [registry.get_coder(hints.get(name, Any)) for name in fields], hint)
        coder._required = frozenset(name for name in fields if not _is_optional(hints.get(name, Any)))
        return coder

    @property
    def schema(self) -> Any:
        """The schema of the values."""
        return schema_of_rows(self._constructor)

    def encode(self, value: Any) -> bytes:
        try:
            fields = [getattr(value, name) for name in self._names]
        except AttributeError:
            raise wrong_type(self, f"values with the fields {', '.join(self._names)}", value) from None
        missing = 0
        for i, (name, field) in enumerate(zip(self._names, fields)):
            if field is None:
                if name in self._required:
                    raise SerializationError(
                        f"{self!r}: the field {name!r} is None, and its type doesn't allow it; annotate it as Optional"
                    )
                missing |= 1 << i
        length = max((missing.bit_length() + 7) // 8, self._bitmap_length) if missing else 0
        bitmap = missing.to_bytes(length, "little")
        parts = [coder.encode_nested(field) for coder, field in zip(self._coders, fields) if field is not None]
        return encode_varint(len(fields)) + encode_varint(len(bitmap)) + bitmap + b"".join(parts)

    def decode(self, encoded: bytes) -> Any:
        count, _ = read_varint(encoded, 0)
        # The fields of another version of the class follow.
        return self.read_nested(encoded, 0)[0] if count > len(self._names) else super().decode(encoded)

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        count, start = read_varint(encoded, start)
        length, start = read_varint(encoded, start)
        missing = int.from_bytes(take(encoded, start, start + length), "little")
        start += length
        fields: dict[str, Any] = {}
        for i, (name, coder) in enumerate(zip(self._names, self._coders)):
            if missing >> i & 1 or i >= count:
                fields[name] = None
            else:
                fields[name], start = coder.read_nested(encoded, start)
        return self._constructor(**fields), start

    def is_deterministic(self) -> bool:
        return all(coder.is_deterministic() for coder in self._coders)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        coders = [coder.as_deterministic_coder(step_label, error_message) for coder in self._coders]
        deterministic = RowCoder(self._names, coders, self._constructor)
        deterministic._required, deterministic._bitmap_length = self._required, self._bitmap_length
        return deterministic

    def to_type_hint(self) -> Any:
        return self._constructor

    def __repr__(self) -> str:
        return f"RowCoder({self._names!r}, {self._coders!r}, {self._constructor!r})"


class LogicalTypeCoder(SelfDelimitingCoder):
    """Values of a logical type, encoded by what represents them.

    >>> from penstock.sdk.coders import VarIntCoder
    >>> from penstock.typehints.schemas import Date
    >>> import datetime
    >>> LogicalTypeCoder(Date(), VarIntCoder()).encode(datetime.date(1970, 1, 8))
    b'\\x07'
    """

    def __init__(self, logical_type: Any, representation_coder: Coder) -> None:
        self.logical_type = logical_type
        self.representation_coder = representation_coder

    def encode(self, value: Any) -> bytes:
        return self.representation_coder.encode_nested(self.logical_type.to_representation_type(value))

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        represented, end = self.representation_coder.read_nested(encoded, start)
        return self.logical_type.to_language_type(represented), end

    def is_deterministic(self) -> bool:
        return self.representation_coder.is_deterministic()

    def to_type_hint(self) -> Any:
        return self.logical_type.language_type()


def _is_optional(hint: Any) -> bool:
    hint = simplified(hint)
    return hint in (Any, NoneType) or NoneType in (members(hint) or ())
