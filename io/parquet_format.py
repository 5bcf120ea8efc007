"""ParquetFormat: records, or tables, as Parquet files."""

from __future__ import annotations

from typing import Any, BinaryIO

from ..sdk.coders.coder import shortened
from ..sdk.errors import SinkError
from .file_format import FileFormat, RecordWriter
from .optional_package import optional_package
from .records import as_dicts

_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


class ParquetFormat(FileFormat):
    """Parquet files of one schema.

    Args:
      schema: a `pyarrow.Schema`.
      codec: 'none', 'snappy', 'gzip', 'brotli', 'lz4' or 'zstd'.
      row_group_buffer_size: begin another row group after about so many bytes in memory.
      record_batch_size: how many records are turned into columns at once.
      batched: values are `pyarrow.Table`s, not records.
      use_deprecated_int96_timestamps, use_compliant_nested_type: as pyarrow's.

    Raises `MissingExtraError` without pyarrow.
    """

    def __init__(
        self,
        schema: Any,
        *,
        codec: str = "none",
        row_group_buffer_size: int = 64 * 1024 * 1024,
        record_batch_size: int = 1000,
        batched: bool = False,
        use_deprecated_int96_timestamps: bool = False,
        use_compliant_nested_type: bool = True,
        transform: str = "WriteToParquet",
    ) -> None:
        pyarrow = optional_package("pyarrow", extra="parquet", needed_for=transform)
        if not isinstance(schema, pyarrow.Schema):
            raise TypeError(f"{transform}: schema must be a pyarrow.Schema, got {shortened(schema)}")
        self.schema = schema
        self.codec = codec
        self.row_group_buffer_size = row_group_buffer_size
        self.record_batch_size = record_batch_size
        self.batched = batched
        self.options = {
            "compression": codec,
            "use_deprecated_int96_timestamps": use_deprecated_int96_timestamps,
            "use_compliant_nested_type": use_compliant_nested_type,
        }
        if codec.lower() not in _CODECS:
            raise ValueError(f"{transform}: codec must be one of {', '.join(_CODECS)}; got {codec!r}")

    def open(self, file: BinaryIO) -> RecordWriter:
        return _ParquetWriter(self, file)


class _ParquetWriter(RecordWriter):
    def __init__(self, form: ParquetFormat, file: BinaryIO) -> None:
        self._form = form
        self._arrow = optional_package("pyarrow", extra="parquet", needed_for="WriteToParquet")
        parquet = optional_package("pyarrow.parquet", extra="parquet", needed_for="WriteToParquet")
        self._writer = parquet.ParquetWriter(file, form.schema, **form.options)
        self._records: list[Any] = []
        self._tables: list[Any] = []
        self._bytes = 0

    def write(self, values: list[Any]) -> None:
        if self._form.batched:
            for table in values:
                self._add(self._checked(table))
            return
        self._records.extend(as_dicts(values))
        size = self._form.record_batch_size
        while len(self._records) >= size:
            self._add(self._table(self._records[:size]))
            del self._records[:size]

    def close(self) -> None:
        if self._records:
            self._add(self._table(self._records))
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        # Otherwise it closes itself when it is collected, and complains that the file is closed.
        try:
            self._writer.close()
        except (OSError, ValueError):
            pass

    def _add(self, table: Any) -> None:
        self._tables.append(table)
        self._bytes += table.nbytes
        if self._bytes >= self._form.row_group_buffer_size:
            self._flush()

    def _flush(self) -> None:
        if self._tables:
            table = self._arrow.concat_tables(self._tables)
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._tables, self._bytes = [], 0

    def _table(self, records: list[dict[str, Any]]) -> Any:
        schema = self._form.schema
        unknown = {name for record in records for name in record} - set(schema.names)
        if unknown:
            raise SinkError(f"the field {min(unknown)!r} is not in the Parquet schema ({', '.join(schema.names)})")
        try:
            return self._arrow.Table.from_pylist(records, schema=schema)
        except (self._arrow.ArrowException, OverflowError) as error:
            raise SinkError(f"a record doesn't fit the Parquet schema: {error}") from error

    def _checked(self, table: Any) -> Any:
        if not isinstance(table, self._arrow.Table):
            raise SinkError(f"expected a pyarrow.Table, got {shortened(table)}")
        if table.schema != self._form.schema:
            raise SinkError(
                f"a table's schema is not that of the Parquet file: expected {self._form.schema}, got {table.schema}"
            )
        return table
