"""Parquet: one element for each record, or each row group as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .compression import CompressionTypes
from .file_sink import FileSink
from .filesystem import AnyPath
from .parquet_format import ParquetFormat
from .parquet_source import ParquetSource
from .read_files import DESIRED_BUNDLE_SIZE, ReadAllFiles, ReadFiles
from .write import WriteFiles


class ReadFromParquet(ReadFiles):
    """A dict, or a Row, for each record of the Parquet files that match a pattern.

    `columns` chooses what is read.  Raises `SourceError` when the pattern matches nothing,
    and `MissingExtraError` without pyarrow.

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
    """A dict for each record of the Parquet files that match patterns, which are its input."""

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
    """A `pyarrow.Table` for each row group of the Parquet files that match patterns."""

    _batched = True


class WriteToParquet(WriteFiles):
    """Records (dicts, Rows, named tuples, dataclasses) into Parquet files of one schema.

    The arguments are Beam's; see `FileSink` and `ParquetFormat`.  Raises
    `MissingExtraError` without pyarrow.

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


class WriteToParquetBatched(WriteToParquet):
    """`pyarrow.Table`s into Parquet files of one schema."""

    _batched = True
