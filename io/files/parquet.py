"""Parquet files: `ReadFromParquet`, `WriteToParquet` and their variants, with the format behind them.

An element is a record, or in the batched variants a `pyarrow.Table`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from ...sdk.coders.coder import shortened
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import array_of
from ...sdk.errors import SinkError
from ...sdk.options.value_provider import ValueProvider
from ...sdk.pvalue import PCollection
from ...sdk.type_variables import A
from ...sdk.typehints.arrow_schema import declared_schema
from ..records import as_dicts as dicts_of
from .compression import CompressionTypes
from .filesystem import AnyPath
from .format import FileFormat, RecordWriter
from .parquet_source import ParquetSource, pyarrow_for
from .source import DESIRED_BUNDLE_SIZE, ReadAllFiles, ReadFiles
from .write import FileSink, WriteFiles

if TYPE_CHECKING:
    from ...sdk.static_types import Record  # noqa: F401 (in parameters of classes)

_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


class ParquetFormat(FileFormat):
    """Parquet files of one schema.

    Args:
      schema: a `pyarrow.Schema`.
      codec: 'none', 'snappy', 'gzip', 'brotli', 'lz4' or 'zstd'.
      row_group_buffer_size: the approximate size in memory of a row group, in bytes.
      record_batch_size: the number of records that are converted to columns at once.
      batched: values are `pyarrow.Table`s instead of records.
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
        pyarrow = pyarrow_for(transform)
        if not isinstance(schema, pyarrow.Schema):
            raise TypeError(f"{transform}: schema must be a pyarrow.Schema, got {shortened(schema)}")
        self.schema = schema
        self.codec = codec
        self.row_group_buffer_size = row_group_buffer_size
        self.record_batch_size = record_batch_size
        self.batched = batched
        self.writes_columns = not batched
        self.options = {
            "compression": codec,
            "use_deprecated_int96_timestamps": use_deprecated_int96_timestamps,
            "use_compliant_nested_type": use_compliant_nested_type,
        }
        if codec.lower() not in _CODECS:
            raise ValueError(f"{transform}: codec must be one of {', '.join(_CODECS)}; got {codec!r}")

    def display_data(self) -> dict[str, Any]:
        size = {} if self.batched else {"row_group_buffer_size": str(self.row_group_buffer_size)}
        return {"schema": str(self.schema), "codec": self.codec, **size}

    def open(self, file: BinaryIO) -> RecordWriter:
        return _ParquetWriter(self, file)


class _ParquetWriter(RecordWriter):
    def __init__(self, form: ParquetFormat, file: BinaryIO) -> None:
        self._form = form
        self._arrow = pyarrow_for("WriteToParquet")
        parquet = pyarrow_for("WriteToParquet", "pyarrow.parquet")
        self._writer = parquet.ParquetWriter(file, form.schema, **form.options)
        self._records: list[Any] = []
        self._tables: list[Any] = []
        self._bytes = 0

    def write(self, values: list[Any]) -> None:
        if self._form.batched:
            for table in values:
                self._add(self._checked(table))
            return
        self._records.extend(dicts_of(values))
        size = self._form.record_batch_size
        while len(self._records) >= size:
            self._add(self._table(self._records[:size]))
            del self._records[:size]

    def write_columns(self, bundle: ColumnBundle) -> None:
        table = None if bundle.records is None or self._form.batched else self._converted(bundle.records)
        if table is None:
            self.write(bundle.values)
        else:
            self._add_records()
            self._add(table)

    def close(self) -> None:
        self._add_records()
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        # Otherwise the writer closes itself when it is collected, and raises since the file is closed.
        try:
            self._writer.close()
        except (OSError, ValueError):
            pass

    def _add_records(self) -> None:
        if self._records:
            self._add(self._table(self._records))
        self._records = []

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
            columns = [array_of([record.get(field.name) for record in records], field.type) for field in schema]
            return self._arrow.Table.from_arrays(columns, schema=schema)
        except (self._arrow.ArrowException, OverflowError) as error:
            raise SinkError(f"a record doesn't fit the Parquet schema: {error}") from error

    def _converted(self, batch: Any) -> Any:
        """Return a batch as a table of the file's schema; None if a column must be converted value by value."""
        columns, names = [], batch.schema.names
        for field in self._form.schema:
            if names.count(field.name) != 1:
                return None
            column = batch.column(field.name)
            if column.type != field.type:
                if not (self._arrow.types.is_integer(column.type) and self._arrow.types.is_integer(field.type)):
                    return None
                try:
                    column = column.cast(field.type)
                except self._arrow.ArrowInvalid:
                    return None
            columns.append(column)
        if len(columns) != len(names):
            return None
        return self._arrow.Table.from_arrays(columns, schema=self._form.schema)

    def _checked(self, table: Any) -> Any:
        if not isinstance(table, self._arrow.Table):
            raise SinkError(f"expected a pyarrow.Table, got {shortened(table)}")
        if table.schema != self._form.schema:
            raise SinkError(
                f"a table's schema is not that of the Parquet file: expected {self._form.schema}, got {table.schema}"
            )
        return table


class ReadFromParquet(ReadFiles[A]):
    """A dict, or a Row, for each record of the Parquet files that match a pattern.

    Returns a `PCollection[dict[str, Any]]`, or of Rows.

    `columns` selects the columns to read.  With `validate`, the footer of the first file is read when the pipeline is
    built, and its fields are those of the elements' type.  Raises `SourceError` if the pattern matches nothing or a
    column is missing, and `MissingExtraError` without pyarrow.

    >>> import penstock as beam
    >>> import pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.parquet")
    >>> pyarrow.parquet.write_table(pyarrow.table({"name": ["Ada"], "age": [36]}), path)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromParquet(path, columns=["age"]) | beam.Map(print)
    {'age': 36}
    """

    @overload
    def __init__(
        self: ReadFromParquet[dict[str, Any]],
        file_pattern: AnyPath,
        min_bundle_size: int = ...,
        validate: bool = ...,
        columns: Sequence[str] | None = ...,
        as_rows: Literal[False] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromParquet[Any],
        file_pattern: AnyPath,
        min_bundle_size: int = ...,
        validate: bool = ...,
        columns: Sequence[str] | None = ...,
        as_rows: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        file_pattern: AnyPath,
        min_bundle_size: int = 0,
        validate: bool = True,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
    ) -> None:
        source = ParquetSource(
            file_pattern,
            min_bundle_size=min_bundle_size,
            columns=columns,
            as_rows=as_rows,
            transform=type(self).__name__,
        )
        super().__init__(source, validate)


class ReadFromParquetBatched(ReadFiles):
    """A `pyarrow.Table` for each row group of the Parquet files that match a pattern.

    Returns a `PCollection[pyarrow.Table]`.

    >>> import penstock as beam
    >>> import pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.parquet")
    >>> pyarrow.parquet.write_table(pyarrow.table({"name": ["Ada", "Grace"]}), path)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromParquetBatched(path) | beam.Map(lambda t: t.num_rows) | beam.Map(print)
    2
    """

    def __init__(
        self,
        file_pattern: AnyPath,
        min_bundle_size: int = 0,
        validate: bool = True,
        columns: Sequence[str] | None = None,
    ) -> None:
        source = ParquetSource(
            file_pattern,
            min_bundle_size=min_bundle_size,
            columns=columns,
            batched=True,
            transform=type(self).__name__,
        )
        super().__init__(source, validate)


class ReadAllFromParquet(ReadAllFiles[A]):
    """A dict for each record of the Parquet files that match the patterns of its input.

    Returns a `PCollection[dict[str, Any]]`, or of pairs with the file's path.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> pattern = pathlib.Path(tempfile.mkdtemp(), "people")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([beam.Row(name="Ada", age=36)]) | beam.io.WriteToParquet(pattern)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([f"{pattern}*"]) | beam.io.ReadAllFromParquet(columns=["name"]) | beam.Map(print)
    {'name': 'Ada'}
    """

    _batched = False

    @overload
    def __init__(
        self: ReadAllFromParquet[dict[str, Any]],
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        columns: Sequence[str] | None = None,
        with_filename: Literal[False] = False,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadAllFromParquet[tuple[str, dict[str, Any]]],
        *,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        columns: Sequence[str] | None = None,
        with_filename: Literal[True],
    ) -> None: ...
    @overload
    def __init__(
        self: ReadAllFromParquet[Any],
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        columns: Sequence[str] | None = None,
        with_filename: bool = False,
    ) -> None: ...
    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        columns: Sequence[str] | None = None,
        with_filename: bool = False,
    ) -> None:
        source = ParquetSource(
            "",
            min_bundle_size=min_bundle_size,
            columns=columns,
            batched=self._batched,
            transform=type(self).__name__,
        )
        super().__init__(source, desired_bundle_size=desired_bundle_size, with_filename=with_filename)


class ReadAllFromParquetBatched(ReadAllFromParquet[Any]):
    """A `pyarrow.Table` for each row group of the Parquet files that match the patterns of its input.

    Returns a `PCollection[pyarrow.Table]`, or of pairs with the file's path.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> pattern = pathlib.Path(tempfile.mkdtemp(), "people")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([beam.Row(name="Ada"), beam.Row(name="Bo")]) | beam.io.WriteToParquet(pattern)
    >>> with beam.Pipeline() as p:
    ...     tables = p | beam.Create([f"{pattern}*"]) | beam.io.ReadAllFromParquetBatched()
    ...     _ = tables | beam.Map(lambda table: print(table.num_rows, table.column_names))
    2 ['name']
    """

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    _batched = True


class WriteToParquet(WriteFiles["Record"]):
    """Records (dicts, Rows, named tuples, dataclasses) into Parquet files of one schema.

    Takes a `PCollection[T]` of records.

    The arguments are Beam's; see `FileSink` and `ParquetFormat`.  Without a schema, the fields of the elements' class
    are written (`with_output_types` declares the class).

    Raises `MissingExtraError` without pyarrow; `TypeError` without a schema if the type of the elements has no fields
    with types.

    >>> import penstock as beam
    >>> import pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> schema = pyarrow.schema([("name", pyarrow.string())])
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([{"name": "Ada"}]) | beam.io.WriteToParquet(directory / "people", schema)
    >>> pyarrow.parquet.read_table(directory / "people-00000-of-00001").to_pylist()
    [{'name': 'Ada'}]
    """

    _batched = False

    def __init__(
        self,
        file_path_prefix: AnyPath,
        schema: Any = None,
        row_group_buffer_size: int = 64 * 1024 * 1024,
        record_batch_size: int = 1000,
        codec: str = "none",
        use_deprecated_int96_timestamps: bool = False,
        use_compliant_nested_type: bool = True,
        file_name_suffix: str | ValueProvider = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        mime_type: str = "application/x-parquet",
        triggering_frequency: float | None = None,
        skip_if_empty: bool = False,
    ) -> None:
        transform = type(self).__name__
        # The schema of the elements' class is known once there is a PCollection.
        self._takes_declared_schema = schema is None and not self._batched
        file_format = ParquetFormat(
            pyarrow_for(transform).schema([]) if self._takes_declared_schema else schema,
            codec=codec,
            row_group_buffer_size=row_group_buffer_size,
            record_batch_size=record_batch_size,
            batched=self._batched,
            use_deprecated_int96_timestamps=use_deprecated_int96_timestamps,
            use_compliant_nested_type=use_compliant_nested_type,
            transform=transform,
        )
        super().__init__(
            FileSink(
                file_path_prefix,
                file_format,
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=CompressionTypes.UNCOMPRESSED,
                skip_if_empty=skip_if_empty,
                triggering_frequency=triggering_frequency,
                transform=transform,
            )
        )

    def sink_for(self, pcoll: PCollection[Any]) -> Any:
        sink = super().sink_for(pcoll)
        if self._takes_declared_schema:
            sink.file_format = copy.copy(sink.file_format)
            label = pcoll.pipeline.full_label
            sink.file_format.schema = declared_schema(pcoll.hint, label, "give schema= a pyarrow.Schema")
        return sink


class WriteToParquetBatched(WriteToParquet):
    """`pyarrow.Table`s into Parquet files of one schema.

    Takes a `PCollection[pyarrow.Table]`.

    >>> import pathlib, tempfile, pyarrow
    >>> import penstock as beam
    >>> people = pyarrow.table({"name": ["Ada", "Bo"]})
    >>> pattern = pathlib.Path(tempfile.mkdtemp(), "people")
    >>> with beam.Pipeline() as p:
    ...     tables = p | beam.Create([1]) | beam.Map(lambda n: people)
    ...     _ = tables | beam.io.WriteToParquetBatched(pattern, people.schema)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromParquet(f"{pattern}*") | beam.Map(print)
    {'name': 'Ada'}
    {'name': 'Bo'}
    """

    if TYPE_CHECKING:

        def _declares(self, pcoll: PCollection[Any], /) -> Any: ...

    _batched = True
