"""Coder of records with an Avro schema.  Needs fastavro: `pip install 'penstock[avro]'`."""

from __future__ import annotations

import io
from typing import Any

import attrs

from ...frozen import frozen
from ...persistence import stored_as
from ..errors import missing_extra
from .coder import Coder, wrong_type


@stored_as("avro-record", 1)
@frozen(eq=False)
class AvroRecord:
    """A record to encode with a schema: a dictionary, list or value that fits it.

    Records of subclasses are equal to others of the same content.

    >>> AvroRecord({"name": "ann"})
    AvroRecord(record={'name': 'ann'})
    """

    record: Any = attrs.field(alias="value")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroRecord) and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.record)


class AvroGenericCoder(Coder):
    """`AvroRecord`s of one schema, without the schema in the bytes.

    Args:
      schema: as JSON text, or as the decoded JSON.

    >>> coder = AvroGenericCoder('{"type": "array", "items": "int"}')
    >>> coder.decode(coder.encode(AvroRecord([1, 2])))
    AvroRecord(record=[1, 2])
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, AvroRecord):
            raise wrong_type(self, "AvroRecord", value)
        out = io.BytesIO()
        _fastavro().schemaless_writer(out, self._parsed(), value.record)
        return out.getvalue()

    def decode(self, encoded: bytes) -> AvroRecord:
        return AvroRecord(_fastavro().schemaless_reader(io.BytesIO(encoded), self._parsed(), None))

    def _parsed(self) -> Any:
        import json

        schema = json.loads(self.schema) if isinstance(self.schema, str) else self.schema
        return _fastavro().parse_schema(schema)

    def is_deterministic(self) -> bool:
        # As in Beam, since a map's entries are written in any order.
        return False

    def to_type_hint(self) -> Any:
        return AvroRecord


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise missing_extra("fastavro", "avro", "AvroGenericCoder") from None
    return fastavro
