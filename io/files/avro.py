"""Avro files: `ReadFromAvro`, `ReadAllFromAvro` and `WriteToAvro`, with the source and the format behind them.

An Avro file is cut at the markers between its blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from ...sdk.coders.coder import shortened
from ...sdk.elements.row import Row, rows_of_dicts
from ...sdk.errors import SinkError, SourceError
from ...sdk.options.value_provider import ValueProvider
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.type_variables import A
from ...sdk.typehints.arrow_schema import declared_schema
from ...sdk.typehints.schema import with_schema
from ..avro_types import CommonFields, column_type
from ..optional_package import optional_package
from ..records import as_dicts
from .compression import CompressionTypes, naming_the_file
from .filesystem import AnyPath, FileMetadata, filesystem_for
from .format import FileFormat, RecordWriter
from .line_blocks import next_boundary
from .matching import MatchContinuously
from .source import DESIRED_BUNDLE_SIZE, FileRange, FileSource, ReadAllFiles, ReadFiles
from .write import FileSink, WriteFiles

if TYPE_CHECKING:
    from ...sdk.static_types import Record  # noqa: F401 (in parameters of classes)

CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")

# Avro's names for Arrow's.
_AVRO_TYPES = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
}
# The number of files whose schemas are read at once.
_READ_AT_ONCE = 16
# In place of the schema of the elements' class, until it is known.
_NO_FIELDS = {"type": "record", "name": "Record", "fields": []}


def _fastavro(transform: str, module: str = "fastavro") -> Any:
    return optional_package(module, extra="avro", needed_for=transform)


class AvroFormat(FileFormat):
    """Avro files of one schema, which is a dict or JSON.

    `codec` is one of `CODECS`; the last three need packages of their own.  Raises
    `MissingExtraError` without fastavro.
    """

    def __init__(self, schema: Any, codec: str = "deflate", transform: str = "WriteToAvro") -> None:
        fastavro = _fastavro(transform)
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

    def display_data(self) -> dict[str, Any]:
        return {"schema": str(self.schema), "codec": self.codec}


class _AvroWriter(RecordWriter):
    def __init__(self, form: AvroFormat, file: BinaryIO) -> None:
        write = _fastavro("WriteToAvro", "fastavro.write")
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


class AvroSource(FileSource[Any]):
    """The records of Avro files as dicts or Rows.

    An Avro file has a marker of 16 random bytes after each block, so it is cut as text is
    cut at newlines.  Raises `MissingExtraError` without fastavro.
    """

    compresses_itself = True

    def __init__(
        self,
        pattern: AnyPath,
        *,
        as_rows: bool = False,
        min_bundle_size: int = 0,
        transform: str = "ReadFromAvro",
    ) -> None:
        super().__init__(
            pattern,
            compression_type=CompressionTypes.UNCOMPRESSED,
            min_bundle_size=min_bundle_size,
            transform=transform,
        )
        self.as_rows = as_rows
        # The fields of the Rows of all files, if they are known.
        self._names: tuple[str, ...] = ()
        _fastavro(transform)

    def element_type(self, files: Sequence[FileMetadata]) -> Any:
        if self.as_rows:
            return self._common_type([file.path for file in files])
        fields = self._fields_of(files[0].path)
        if fields is None:
            return Any
        # A field of dicts may be of another type in another file.
        known = fields if len(files) == 1 else dict.fromkeys(fields)
        return self.record_type(files, known.items(), as_rows=False, may_vary=True)

    def _common_type(self, paths: Sequence[str]) -> Any:
        """Return the type of the Rows of all files, by the schemas of each."""
        with ThreadPoolExecutor(min(len(paths), _READ_AT_ONCE)) as threads:
            found = [(path, fields) for path, fields in zip(paths, threads.map(self._fields_of, paths)) if fields]
        if not found:
            return Any
        common = CommonFields()
        for path, fields in found:
            common.add(path, fields)
        self._names = tuple(common.kinds)
        return with_schema(Row, common.kinds.items(), unknown=common.unknown)

    def names_of(self, path: str) -> Sequence[str] | None:
        fields = self._fields_of(path)
        return None if fields is None else list(fields)

    def _fields_of(self, path: str) -> dict[str, Any] | None:
        """Return the fields of a file's records, with their types as in `Schema`; None for a file without records."""
        try:
            with filesystem_for(path).open(path) as file:
                schema = _fastavro(self.transform).parse_schema(_fastavro(self.transform).reader(file).writer_schema)
            named: dict[str, Any] = {}
            return {field["name"]: column_type(field["type"], named) for field in schema["fields"]}
        except Exception:
            # Of fastavro, of a file system, or of values other than records.
            return None

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        path = file_range.path
        fastavro = _fastavro(self.transform)
        with naming_the_file(path, self.compression_type), filesystem_for(path).open(path) as file:
            if not file_range.size:
                # Empty, which is a file without records as in Beam, or of unknown size.
                if not file.read(1):
                    return
                file.seek(0)
            try:
                for block in fastavro.block_reader(_blocks_of(file, file_range)):
                    records = list(block)
                    yield self._rows_of(records) if self.as_rows else records, block.size
            except (ValueError, KeyError, TypeError, IndexError, EOFError) as error:
                raise SourceError(f"{self.transform}: {path!r} can't be read as Avro: {error}") from error

    def _rows_of(self, records: list[dict[str, Any]]) -> list[Row]:
        """Return records as Rows, which have the fields of all files."""
        if self._names and records and records[0].keys() != dict.fromkeys(self._names).keys():
            absent = dict.fromkeys(self._names)
            records = [absent | record for record in records]
        return rows_of_dicts(records)


def _blocks_of(file: BinaryIO, file_range: FileRange) -> BinaryIO | _Excerpt:
    """Return the file restricted to the blocks that start in the range."""
    if file_range.stop is None:
        return file
    header, marker = _header(file)
    begin = max(next_boundary(file, file_range.start, marker), len(header))
    # The end of the header is a marker too, so a first range that ends within the header is empty.
    end = max(next_boundary(file, file_range.stop, marker), len(header))
    file.seek(begin)
    return _Excerpt(header, file, end - begin)


def _header(file: BinaryIO) -> tuple[bytes, bytes]:
    """Return the bytes before the first block, and the marker at their end.

    The header is "Obj" and 1, a map from strings to bytes, and the marker.
    """
    if file.read(4) != b"Obj\x01":
        raise ValueError("it doesn't begin as an Avro file does")
    while count := _read_long(file):
        if count < 0:
            # A negative count is followed by the size of the entries.
            _read_long(file)
        for _ in range(2 * abs(count)):
            _read_exactly(file, _read_long(file))
    marker = _read_exactly(file, 16)
    size = file.tell()
    file.seek(0)
    return _read_exactly(file, size), marker


def _read_long(file: BinaryIO) -> int:
    n = shift = 0
    while True:
        byte = _read_exactly(file, 1)[0]
        n |= (byte & 127) << shift
        if byte < 128:
            return (n >> 1) ^ -(n & 1)
        shift += 7


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size) if size >= 0 else b""
    if len(data) != size:
        raise EOFError("it ends within its header")
    return data


class _Excerpt:
    """The header of a file, followed by a number of bytes from the file's position."""

    def __init__(self, header: bytes, file: BinaryIO, size: int) -> None:
        self._header = header
        self._file = file
        self._remaining = size
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        head = self._header[self._position :][: size if size >= 0 else None]
        wanted = self._remaining if size < 0 else min(size - len(head), self._remaining)
        body = self._file.read(wanted) if wanted else b""
        self._remaining -= len(body)
        self._position += len(head) + len(body)
        return head + body if head else body

    def tell(self) -> int:
        return self._position


class ReadFromAvro(ReadFiles[A]):
    """A dict, or a Row, for each record of the Avro files that match a pattern.

    Returns a `PCollection[dict[str, Any]]`, or of Rows.

    Raises `SourceError` when the pattern matches nothing, and `MissingExtraError` without
    fastavro.  `use_fastavro` is Beam's, and has no effect.

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

    @overload
    def __init__(
        self: ReadFromAvro[dict[str, Any]],
        file_pattern: AnyPath,
        min_bundle_size: int = ...,
        validate: bool = ...,
        use_fastavro: bool = ...,
        as_rows: Literal[False] = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromAvro[Any],
        file_pattern: AnyPath,
        min_bundle_size: int = ...,
        validate: bool = ...,
        use_fastavro: bool = ...,
        as_rows: bool = ...,
    ) -> None: ...
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


class ReadAllFromAvro(ReadAllFiles[A]):
    """A dict for each record of the Avro files that match the patterns of its input.

    Returns a `PCollection[dict[str, Any]]`, or of pairs with the file's path.

    >>> import pathlib, tempfile
    >>> import penstock as beam
    >>> pattern = pathlib.Path(tempfile.mkdtemp(), "people")
    >>> schema = {"type": "record", "name": "Person", "fields": [{"name": "name", "type": "string"}]}
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([{"name": "Ada"}]) | beam.io.WriteToAvro(pattern, schema)
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([f"{pattern}*"]) | beam.io.ReadAllFromAvro() | beam.Map(print)
    {'name': 'Ada'}
    """

    @overload
    def __init__(
        self: ReadAllFromAvro[dict[str, Any]],
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: Literal[False] = False,
        label: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadAllFromAvro[tuple[str, dict[str, Any]]],
        *,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: Literal[True],
        label: str | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadAllFromAvro[Any],
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: bool = False,
        label: str | None = None,
    ) -> None: ...
    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: bool = False,
        label: str | None = None,
    ) -> None:
        source = AvroSource("", min_bundle_size=min_bundle_size, transform=type(self).__name__)
        super().__init__(source, desired_bundle_size=desired_bundle_size, with_filename=with_filename)
        if label is not None:
            self.label = label


class ReadAllFromAvroContinuously(PTransform):
    """The records of each Avro file that matches a pattern.  A file is read once and whole, when it is first seen.

    The arguments are those of `MatchContinuously` and of `ReadAllFromAvro`.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> (p | ReadAllFromAvroContinuously("in/*.avro", interval=5, with_filename=True)).is_bounded
    False
    """

    def __init__(
        self,
        file_pattern: AnyPath,
        *,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        use_fastavro: bool = True,
        with_filename: bool = False,
        **match: Any,
    ) -> None:
        super().__init__()
        self._match = MatchContinuously(file_pattern, **match)
        self._read = ReadAllFromAvro(min_bundle_size, desired_bundle_size, use_fastavro, with_filename)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        records: PCollection[Any] = pbegin | self._match | self._read
        return records


class WriteToAvro(WriteFiles["Record"]):
    """Records (dicts, Rows, named tuples, dataclasses) into Avro files of one schema.

    Takes a `PCollection[T]` of records.

    The arguments are Beam's; see `FileSink` and `AvroFormat`.  Without a schema, the fields of the elements' class are
    written (`with_output_types` declares the class); each may be null.

    Raises `MissingExtraError` without fastavro; `TypeError` without a schema if the type of the elements has no fields
    with types.

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
        file_name_suffix: str | ValueProvider = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        mime_type: str = "application/x-avro",
        use_fastavro: bool = True,
        triggering_frequency: float | None = None,
        skip_if_empty: bool = False,
    ) -> None:
        # The schema of the elements' class is known once there is a PCollection.
        self._takes_declared_schema = schema is None
        super().__init__(
            FileSink(
                file_path_prefix,
                AvroFormat(_NO_FIELDS if schema is None else schema, codec, transform=type(self).__name__),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=CompressionTypes.UNCOMPRESSED,
                skip_if_empty=skip_if_empty,
                triggering_frequency=triggering_frequency,
                transform=type(self).__name__,
            )
        )

    def sink_for(self, pcoll: PCollection[Any]) -> Any:
        sink = super().sink_for(pcoll)
        if self._takes_declared_schema:
            label = pcoll.pipeline.full_label
            schema = declared_schema(pcoll.hint, label, "give schema= an Avro schema")
            sink.file_format = AvroFormat(_avro_record(schema, "Record"), sink.file_format.codec, label)
        return sink


def _avro_record(fields: Any, name: str) -> dict[str, Any]:
    """Return the Avro schema for fields of Arrow."""
    types = [{"name": field.name, "type": ["null", _avro_type(field.type, f"{name}_{field.name}")]} for field in fields]
    return {"type": "record", "name": name, "fields": types}


def _avro_type(kind: Any, name: str) -> Any:
    import pyarrow

    if pyarrow.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, name)]}
    if pyarrow.types.is_map(kind) and pyarrow.types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, name)]}
    if pyarrow.types.is_struct(kind):
        return _avro_record(kind, name)
    if pyarrow.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if pyarrow.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "local-timestamp-micros" if kind.tz is None else "timestamp-micros"}
    if pyarrow.types.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    if pyarrow.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, pyarrow.UuidType):
        return {"type": "string", "logicalType": "uuid"}
    found = _AVRO_TYPES.get(str(kind))
    if found is None:
        raise TypeError(f"WriteToAvro: the field {name.partition('_')[2]!r} is of Arrow's type {kind}; give schema=")
    return found
