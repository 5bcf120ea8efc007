"""Parquet files: `ReadFromParquet`, `WriteToParquet` and their variants, with the source and the format behind them.

An element is a record, or in the batched variants a `pyarrow.Table`. A file is cut at its row groups.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from ...sdk.bundle import BUNDLE_SIZE, Bundle
from ...sdk.coders.coder import shortened
from ...sdk.column_bundle import COLUMN_BUNDLE_SIZE, ColumnBundle, Elements, as_dicts, as_rows, in_microseconds
from ...sdk.errors import ColumnError, SinkError, SourceError
from ...sdk.pvalue import PCollection
from ..optional_package import optional_package
from ..records import as_dicts as dicts_of
from .arrow_schema import schema_of
from .compression import CompressionTypes, naming_the_file
from .filesystem import AnyPath, filesystem_for
from .format import FileFormat, RecordWriter
from .sink import FileSink
from .source import DESIRED_BUNDLE_SIZE, FileRange, FileSource, FileSplit, ReadAllFiles, ReadFiles
from .write import WriteFiles

# Bundles of wide records have fewer of them.
_COLUMN_BUNDLE_BYTES = 8 << 20

_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")


def _pyarrow(transform: str, module: str = "pyarrow") -> Any:
    return optional_package(module, extra="parquet", needed_for=transform)


class ParquetFormat(FileFormat):
    """Parquet files of one schema.

    Args:
      schema: a `pyarrow.Schema`; None for one that is set before a file is opened.
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
        pyarrow = _pyarrow(transform)
        if not isinstance(schema, pyarrow.Schema) and (batched or schema is not None):
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

    def open(self, file: BinaryIO) -> RecordWriter:
        return _ParquetWriter(self, file)


class _ParquetWriter(RecordWriter):
    def __init__(self, form: ParquetFormat, file: BinaryIO) -> None:
        self._form = form
        self._arrow = _pyarrow("WriteToParquet")
        parquet = _pyarrow("WriteToParquet", "pyarrow.parquet")
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
            return self._arrow.Table.from_pylist(records, schema=schema)
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


class ParquetSource(FileSource[Any]):
    """The records of Parquet files as dicts or Rows, or each row group as a `pyarrow.Table`.

    Args:
      columns: the columns to read; None for all.
      as_rows: give Rows instead of dicts.
      batched: give one table for each row group.

    A row group belongs to the split that it starts in.  Rows have the fields of the first file: those of another file
    are in the same order, and a field that is missing, new or of another type raises `SourceError`.  Raises
    `MissingExtraError` without pyarrow.
    """

    def __init__(
        self,
        pattern: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        as_rows: bool = False,
        batched: bool = False,
        min_bundle_size: int = 0,
        transform: str = "ReadFromParquet",
    ) -> None:
        super().__init__(
            pattern,
            compression_type=CompressionTypes.UNCOMPRESSED,
            min_bundle_size=min_bundle_size,
            transform=transform,
        )
        self.columns = list(columns) if columns is not None else None
        self.as_rows = as_rows
        self.batched = batched
        self.gives_columns = not batched
        # The columns that are used of all; None for all of them.
        self.used: tuple[str, ...] | None = None
        # The path and the schema of the first file.
        self._first: tuple[str, Any] | None = None
        _pyarrow(transform, "pyarrow.parquet")

    def using(self, names: tuple[str, ...]) -> ParquetSource:
        """Return a source of elements of which these fields are used; with all fields where one of these is missing."""
        if self.batched or self.columns is not None:
            return self
        twin = copy.copy(self)
        twin.used = names
        return twin

    def format_identity(self) -> Mapping[str, Any]:
        return {"batched": self.batched}

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        path = file_range.path
        with naming_the_file(path, self.compression_type), filesystem_for(path).open(path) as opened:
            file = self._opened(path, opened)
            for group in _row_groups(file.metadata, file_range):
                if self.batched:
                    table = file.read_row_group(group, columns=self.columns)
                    # Each table is a bundle.
                    yield [table], max(table.nbytes, 1 << 20)
                else:
                    for batch in self._batches(path, opened, file, [group]):
                        yield self._elements(batch), batch.nbytes

    def read_bundles(self, split: FileSplit) -> Iterator[Bundle]:
        if self.batched:
            yield from super().read_bundles(split)
            return
        for file_range in split:
            path = file_range.path
            with naming_the_file(path, self.compression_type), filesystem_for(path).open(path) as opened:
                file = self._opened(path, opened)
                groups = _row_groups(file.metadata, file_range)
                for batch in self._batches(path, opened, file, groups):
                    yield ColumnBundle(batch, self._elements)

    def _batches(self, path: str, opened: Any, file: Any, groups: list[int]) -> Iterator[Any]:
        fields = self._checked_fields(path, file.schema_arrow) if self.as_rows else None
        columns = self.columns
        if self.used and {*self.used} <= {*file.schema_arrow.names}:
            columns = list(self.used)
            fields = None if fields is None else [name for name in fields if name in self.used]
            encoded = _encoded_strings(file, groups, columns)
            if encoded:
                file = self._opened(path, opened, metadata=file.metadata, read_dictionary=encoded)
        for batch in file.iter_batches(_rows_of(file.metadata), groups, columns, use_threads=False):
            try:
                yield in_microseconds(batch if fields is None or batch.schema.names == fields else batch.select(fields))
            except ColumnError as error:
                raise SourceError(f"{self.transform}: {path!r}: {error}, or use ReadFromParquetBatched") from None

    def _checked_fields(self, path: str, schema: Any) -> list[str]:
        """Return the columns to read of a file, in the order of the first one.  Raises `SourceError`."""
        if self._first is None:
            first = self.files()[0].path if self.pattern else path
            with naming_the_file(first, self.compression_type), filesystem_for(first).open(first) as opened:
                self._first = first, self._opened(first, opened).schema_arrow
        first, expected = self._first
        wanted = None if self.columns is None else dict.fromkeys(column.partition(".")[0] for column in self.columns)
        fields = list(expected.names if wanted is None else wanted)
        for name in [*fields, *(schema.names if wanted is None else ())]:
            kinds = [str(each.field(name).type) if name in each.names else None for each in (expected, schema)]
            if kinds[0] != kinds[1] and (None in kinds or not _are_alike(expected.field(name), schema.field(name))):
                of_first, own = (f"of the type {kind}" if kind else "missing" for kind in kinds)
                raise SourceError(
                    f"{self.transform}: {path!r} has another schema than {first!r}: the field {name!r} is {own}, "
                    f"expected it to be {of_first}. Read them apart, choose others by columns=, or give dicts by "
                    "as_rows=False"
                )
        return fields

    @property
    def _elements(self) -> Elements:
        return as_rows if self.as_rows else as_dicts

    def _opened(self, path: str, opened: Any, **options: Any) -> Any:
        try:
            file = _pyarrow(self.transform, "pyarrow.parquet").ParquetFile(opened, **options)
        except _pyarrow(self.transform).ArrowInvalid as error:
            raise SourceError(f"{self.transform}: {path!r} is not a Parquet file: {error}") from error
        names = file.schema_arrow.names
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled and not self.batched:
            raise SourceError(f"{self.transform}: {path!r} has more than one column named {doubled[0]!r}")
        for column in self.columns or ():
            if column.partition(".")[0] not in names:
                raise SourceError(f"{self.transform}: {path!r} has no column {column!r}; it has {', '.join(names)}")
        return file


# Arrow types whose values are of one type in Python, by the names of pyarrow's predicates.
_ALIKE = ("integer", "floating", "decimal", "struct", "map", "time", "duration")
_ALIKE_IN_SIZES = ("string", "binary", "list")


def _are_alike(left: Any, right: Any) -> bool:
    """Return True if the values of two fields are of one type in Python, or one has nulls only."""
    from pyarrow import types

    def name(kind: Any) -> str:
        if types.is_timestamp(kind):
            return f"timestamp {kind.tz is None}"
        sizes = ((f"{prefix}{name}", name) for name in _ALIKE_IN_SIZES for prefix in ("", "large_", "fixed_size_"))
        known = [(name, name) for name in _ALIKE] + [pair for pair in sizes if hasattr(types, f"is_{pair[0]}")]
        return next((name for test, name in known if getattr(types, f"is_{test}")(kind)), str(kind))

    kinds = [field.type.value_type if types.is_dictionary(field.type) else field.type for field in (left, right)]
    return any(map(types.is_null, kinds)) or name(kinds[0]) == name(kinds[1])


def _encoded_strings(file: Any, groups: list[int], columns: list[str]) -> list[str]:
    """Return the columns of strings that are read in half the time with dictionaries.

    These have at most one byte for each value of the column.
    """
    from pyarrow import types

    def is_encoded(column: Any) -> bool:
        if not column.has_dictionary_page or column.num_values < BUNDLE_SIZE:
            return False
        return bool(column.data_page_offset - column.dictionary_page_offset <= column.num_values)

    places = {file.metadata.schema.column(i).path: i for i in range(file.metadata.num_columns)}
    row_groups = [file.metadata.row_group(group) for group in groups]
    return [
        name
        for name in columns
        if types.is_string(file.schema_arrow.field(name).type)
        and all(is_encoded(row_group.column(places[name])) for row_group in row_groups)
    ]


def _rows_of(metadata: Any) -> int:
    """Return the number of rows of a bundle, by their size."""
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    is_large = COLUMN_BUNDLE_SIZE * size > _COLUMN_BUNDLE_BYTES * metadata.num_rows
    return BUNDLE_SIZE if is_large else COLUMN_BUNDLE_SIZE


def _row_groups(metadata: Any, file_range: FileRange) -> list[int]:
    stop = file_range.stop if file_range.stop is not None else file_range.file_size
    return [g for g in range(metadata.num_row_groups) if file_range.start <= _start(metadata.row_group(g)) < stop]


def _start(row_group: Any) -> int:
    if row_group.num_columns == 0:
        return 0
    column = row_group.column(0)
    return int(min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset))


class ReadFromParquet(ReadFiles):
    """A dict, or a Row, for each record of the Parquet files that match a pattern.

    `columns` selects the columns to read.  Raises `SourceError` if the pattern matches nothing, and `MissingExtraError`
    without pyarrow.

    >>> import penstock as beam
    >>> import pathlib, pyarrow, pyarrow.parquet, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.parquet")
    >>> pyarrow.parquet.write_table(pyarrow.table({"name": ["Ada"], "age": [36]}), path)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromParquet(path, columns=["age"]) | beam.Map(print)
    {'age': 36}
    """

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


class ReadAllFromParquet(ReadAllFiles):
    """A dict for each record of the Parquet files that match the patterns of its input."""

    _batched = False

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


class ReadAllFromParquetBatched(ReadAllFromParquet):
    """A `pyarrow.Table` for each row group of the Parquet files that match the patterns of its input."""

    _batched = True


class WriteToParquet(WriteFiles):
    """Records (dicts, Rows, named tuples, dataclasses) into Parquet files of one schema.

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
        file_name_suffix: str = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        mime_type: str = "application/x-parquet",
        skip_if_empty: bool = False,
    ) -> None:
        file_format = ParquetFormat(
            schema,
            codec=codec,
            row_group_buffer_size=row_group_buffer_size,
            record_batch_size=record_batch_size,
            batched=self._batched,
            use_deprecated_int96_timestamps=use_deprecated_int96_timestamps,
            use_compliant_nested_type=use_compliant_nested_type,
            transform=type(self).__name__,
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
                transform=type(self).__name__,
            )
        )

    def sink_for(self, pcoll: PCollection[Any]) -> Any:
        sink = super().sink_for(pcoll)
        if sink.file_format.schema is None:
            sink.file_format = copy.copy(sink.file_format)
            sink.file_format.schema = _declared_schema(pcoll.element_type, sink.transform)
        return sink


def _declared_schema(element_type: Any, label: str) -> Any:
    advice = "give schema= a pyarrow.Schema"
    try:
        schema = schema_of(element_type)
    except TypeError as error:
        raise TypeError(f"{label}: {error}; {advice}") from None
    if schema is None:
        shown = getattr(element_type, "__name__", element_type)
        raise TypeError(
            f"{label}: the type of the elements, {shown}, has no fields with types; {advice}, or declare a class with "
            "fields by with_output_types"
        )
    return schema


class WriteToParquetBatched(WriteToParquet):
    """`pyarrow.Table`s into Parquet files of one schema."""

    _batched = True
