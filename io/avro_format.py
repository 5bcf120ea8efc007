"""AvroFormat: records as Avro files."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from ..sdk.coders.coder import shortened
from ..sdk.errors import SinkError
from .file_format import FileFormat, RecordWriter
from .optional_package import optional_package
from .records import as_dicts

CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")


class AvroFormat(FileFormat):
    """Avro files of one schema, which is a dict or JSON.

    `codec` is one of `CODECS`; the last three need packages of their own.  Raises
    `MissingExtraError` without fastavro.
    """

    def __init__(self, schema: Any, codec: str = "deflate", transform: str = "WriteToAvro") -> None:
        fastavro = optional_package("fastavro", extra="avro", needed_for=transform)
        if schema is None:
            raise TypeError(f"{transform}: needs a schema, as a dict or as JSON")
        if codec not in CODECS:
            raise ValueError(f"{transform}: codec must be one of {', '.join(CODECS)}; got {codec!r}")
        self.schema = json.loads(schema) if isinstance(schema, str) else schema
        self.codec = codec
        try:
            fastavro.parse_schema(self.schema)
        except (fastavro.schema.SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{transform}: the schema is not Avro's: {error!r}") from error

    def open(self, file: BinaryIO) -> RecordWriter:
        return _AvroWriter(self, file)


class _AvroWriter(RecordWriter):
    def __init__(self, form: AvroFormat, file: BinaryIO) -> None:
        write = optional_package("fastavro.write", extra="avro", needed_for="WriteToAvro")
        self._records = isinstance(form.schema, dict) and form.schema.get("type") == "record"
        self._writer = write.Writer(file, form.schema, codec=form.codec)

    def write(self, values: list[Any]) -> None:
        for value in as_dicts(values) if self._records else values:
            try:
                self._writer.write(value)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
                raise SinkError(f"{shortened(value)} doesn't fit the Avro schema: {error!r}") from error

    def close(self) -> None:
        self._writer.flush()
