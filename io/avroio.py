"""Avro: one element for each record."""

from __future__ import annotations

from typing import Any

from .avro_format import AvroFormat
from .avro_source import AvroSource
from .compression import CompressionTypes
from .file_sink import FileSink
from .filesystem import AnyPath
from .read_files import DESIRED_BUNDLE_SIZE, ReadAllFiles, ReadFiles
from .write import WriteFiles


class ReadFromAvro(ReadFiles):
    """A dict, or a Row, for each record of the Avro files that match a pattern.

    Raises `SourceError` when the pattern matches nothing, and `MissingExtraError` without
    fastavro.  `use_fastavro` is Beam's; there is nothing else here.

    >>> import penstock as beam
    >>> import fastavro, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.avro")
    >>> schema = {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}
    >>> with open(path, "wb") as file:
    ...     fastavro.writer(file, schema, [{"name": "Ada"}])
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromAvro(path) | beam.Map(print)
    {'name': 'Ada'}
    """

    def __init__(
        self,
        file_pattern: AnyPath,
        min_bundle_size: int = 0,
        validate: bool = True,
        use_fastavro: bool = True,
        as_rows: bool = False,
    ) -> None:
        source = AvroSource(
            file_pattern, min_bundle_size=min_bundle_size, as_rows=as_rows, transform=type(self).__name__
        )
        super().__init__(source, validate)


class ReadAllFromAvro(ReadAllFiles):
    """A dict for each record of the Avro files that match patterns, which are its input."""

    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: bool = False,
    ) -> None:
        source = AvroSource("", min_bundle_size=min_bundle_size, transform=type(self).__name__)
        super().__init__(source, desired_bundle_size=desired_bundle_size, with_filename=with_filename)


class WriteToAvro(WriteFiles):
    """Records (dicts, Rows, named tuples, dataclasses) into Avro files of one schema.

    The arguments are Beam's; see `FileSink` and `AvroFormat`.  Raises `MissingExtraError`
    without fastavro.

    >>> import penstock as beam
    >>> import fastavro, pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> schema = {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([{"name": "Ada"}]) | beam.io.WriteToAvro(directory / "people", schema)
    >>> with open(directory / "people-00000-of-00001", "rb") as file:
    ...     list(fastavro.reader(file))
    [{'name': 'Ada'}]
    """

    def __init__(
        self,
        file_path_prefix: AnyPath,
        schema: Any = None,
        codec: str = "deflate",
        file_name_suffix: str = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        mime_type: str = "application/x-avro",
        use_fastavro: bool = True,
        skip_if_empty: bool = False,
    ) -> None:
        super().__init__(
            FileSink(
                file_path_prefix,
                AvroFormat(schema, codec, transform=type(self).__name__),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=CompressionTypes.UNCOMPRESSED,
                skip_if_empty=skip_if_empty,
                transform=type(self).__name__,
            )
        )
