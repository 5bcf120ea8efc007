"""JSON files: `ReadFromJson` and `WriteToJson`, with the source and the format behind them.

A file has one JSON value on each line, or one array of values. Files of lines are cut; an array is read whole.
"""

from __future__ import annotations

import builtins
import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, BinaryIO, get_type_hints, overload

import msgspec
from msgspec.structs import astuple

from ...sdk.coders.coder import shortened
from ...sdk.columns.column_bundle import COLUMN_BUNDLE_SIZE, ColumnBundle
from ...sdk.columns.column_elements import as_rows
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import SinkError, SourceError
from ...sdk.options.value_provider import ValueProvider
from ...sdk.type_variables import A
from ...sdk.typehints.describe import describe
from ..record_types import arrow_types_of, hint_of_type
from ..records import as_dict, is_record
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .filesystem import AnyPath
from .format import FileFormat, RecordWriter
from .source import FileRange, FileSplit, ReadFiles
from .text import TextSource
from .write import FileSink, WriteFiles

_PLAIN = frozenset({dict, list, str, int, float, bool, type(None)})

# Importing pyarrow takes longer than reading a smaller file.
_SMALL = 1 << 24


class JsonFormat(FileFormat):
    r"""One JSON value on each line, or, without `lines`, one array a file.

    Records (dicts, Rows, named tuples, dataclasses) become objects; other values are
    written unchanged.  NaN and infinity, which JSON lacks, become null.

    >>> import io
    >>> file = io.BytesIO()
    >>> writer = JsonFormat().open(file)
    >>> writer.write([{"a": 1}, {"a": None}]); writer.close()
    >>> file.getvalue()
    b'{"a":1}\n{"a":null}\n'
    """

    def __init__(self, lines: bool = True) -> None:
        self.lines = lines

    def open(self, file: BinaryIO) -> RecordWriter:
        return _JsonWriter(file, self.lines)


class _JsonWriter(RecordWriter):
    def __init__(self, file: BinaryIO, lines: bool) -> None:
        self._file = file
        self._lines = lines
        self._before = b"" if lines else b"[\n"
        self._encode = msgspec.json.Encoder(enc_hook=as_dict).encode

    def write(self, values: list[Any]) -> None:
        encoded = [self._encoded(value) for value in values]
        if self._lines:
            self._file.write(b"\n".join([*encoded, b""]))
        elif encoded:
            self._file.write(self._before + b",\n".join(encoded))
            self._before = b",\n"

    def close(self) -> None:
        if not self._lines:
            self._file.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")

    def _encoded(self, value: Any) -> bytes:
        if type(value) not in _PLAIN and is_record(value):
            value = as_dict(value)
        try:
            return self._encode(value)
        except OverflowError:
            # An integer of more than 64 bits.
            return json.dumps(value, default=as_dict, separators=(",", ":"), ensure_ascii=False).encode()
        except (TypeError, ValueError, SinkError) as error:
            raise SinkError(f"{shortened(value)} can't be written as JSON: {error}") from error


class JsonSource(TextSource):
    r"""The values of JSON files, as `json.loads` returns them, or decoded to a declared type.

    With `lines`, a file has one value on each line; blank lines are skipped.  Without, a file is one array, whose items
    are the elements, or one value.

    Args:
      type: the type of an element: a dataclass, an attrs class, a NamedTuple, a TypedDict, a `msgspec.Struct`, or
        another type that msgspec decodes; None for the types of `json`.

    Invalid JSON, and a value of another type than `type`, raise `SourceError`, with the file and the line.  A `type`
    that can't be decoded raises `TypeError`.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.jsonl")
    >>> _ = path.write_text('{"a": 1}\n{"a": null}\n')
    >>> source = JsonSource(path)
    >>> [bundle.values for split in source.split(1) for bundle in source.read_bundles(split)]
    [[{'a': 1}, {'a': None}]]
    """

    def __init__(
        self,
        pattern: AnyPath,
        *,
        type: Any = None,
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        transform: str = "ReadFromJson",
    ) -> None:
        super().__init__(pattern, compression_type=compression_type, transform=transform)
        self.type = type
        self.lines = lines
        # The fields that are used of elements, by name, with their Arrow types; None if whole elements are.
        self.used: dict[str, str] | None = None
        try:
            _decoding(type)
        except (TypeError, NameError) as error:
            raise TypeError(f"{transform}: elements of JSON can't have the type {describe(type)}: {error}") from None

    def using(self, names: tuple[str, ...]) -> JsonSource:
        """Return a source of elements of which these fields are used: of columns, if Arrow has types for them."""
        kinds = arrow_types_of(self.type) if self.lines and find_spec("pyarrow") is not None else {}
        if not names or not {*names} <= {*kinds}:
            return self
        twin = copy.copy(self)
        twin.used = {name: kinds[name] for name in names}
        return twin

    def format_identity(self) -> Mapping[str, Any]:
        return {"lines": self.lines}

    def can_be_cut(self, path: str) -> bool:
        return self.lines and super().can_be_cut(path)

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        if not self.lines:
            yield self._whole(file_range.path)
            return
        decode, decode_lines = _decoding(self.type)
        for offset, data, _terminated in self.blocks(file_range):
            lines: list[bytes] | None = None
            try:
                number = _number_of_objects(data)
                values = decode_lines(data) if number else []
                if not number or number != len(values):
                    lines = data.split(b"\n")
                    values = [decode(line) for line in lines if line]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                # Also lines of spaces.
                values = self._decoded_one_by_one(file_range.path, offset, lines or data.split(b"\n"))
            yield values, len(data)

    def read_bundles(self, split: FileSplit) -> Iterator[Bundle]:
        if self.used is None or sum(file_range.file_size for file_range in split) < _SMALL:
            yield from super().read_bundles(split)
            return
        gathered: list[Any] = []
        for values, _ in (chunk for file_range in split for chunk in self.read_range(file_range)):
            batch = _columns(self.used, values)
            if batch is not None:
                gathered.append(batch)
            if batch is None or sum(each.num_rows for each in gathered) >= COLUMN_BUNDLE_SIZE:
                yield from _joined(gathered)
                gathered = []
            if batch is None:
                yield Bundle(values)
        yield from _joined(gathered)

    def _decoded_one_by_one(self, path: str, offset: int, lines: list[bytes]) -> list[Any]:
        """Decode lines, and locate errors.  Without a type, with `json`, which accepts a little more, such as NaN."""
        decode = json.loads if self.type is None else _decoding(self.type)[0]
        values = []
        for line in lines:
            if line.strip():
                try:
                    values.append(decode(line))
                except (ValueError, RecursionError) as error:
                    where = f", line {self.line_number(path, offset)},"
                    raise SourceError(self._explained(path, where, error, line)) from error
            offset += len(line) + 1
        return values

    def _whole(self, path: str) -> tuple[list[Any], int]:
        with naming_the_file(path, self.compression_type), open_for_reading(path, self.compression_type) as file:
            data = file.read()
        try:
            if self.type is None:
                value = json.loads(data)
            elif data.lstrip().startswith(b"["):
                decode, _ = _decoding(self.type)
                value = [decode(each) for each in msgspec.json.decode(data, type=list[msgspec.Raw])]
            else:
                return [_decoding(self.type)[0](data)], len(data)
        except (ValueError, RecursionError) as error:
            raise SourceError(self._explained(path, "", error)) from error
        return value if isinstance(value, list) else [value], len(data)

    def _explained(self, path: str, where: str, error: Exception, line: bytes | None = None) -> str:
        is_type = isinstance(error, msgspec.ValidationError)
        what = f"is not of the type {describe(self.type)}" if is_type else "is not JSON"
        return f"{self.transform}: {path!r}{where} {what}: {error}" + (f": {shortened(line)}" if line else "")


def _decoding(kind: Any) -> tuple[Callable[[bytes], Any], Callable[[bytes], list[Any]]]:
    r"""Return functions that decode a value of a type, and the values of lines.

    Raises `TypeError` or `NameError` if there can be none.

    >>> import typing
    >>> class Point(typing.NamedTuple):
    ...     x: int
    ...     y: int = 0
    >>> decode, decode_lines = _decoding(Point)
    >>> decode(b'{"x": 1}'), decode_lines(b'{"x": 1}\n{"x": 2}')
    (Point(x=1, y=0), [Point(x=1, y=0), Point(x=2, y=0)])
    """
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        # To msgspec a NamedTuple is an array.
        named: Any = kind
        hints, defaults, make = get_type_hints(named), named._field_defaults, named._make
        fields = [(name, hints.get(name, Any), defaults.get(name, msgspec.NODEFAULT)) for name in named._fields]
        decode, decode_lines = _decoding(msgspec.defstruct(named.__name__, fields))
        return lambda data: make(astuple(decode(data))), lambda data: list(map(make, map(astuple, decode_lines(data))))
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Any if kind is None else kind)
    return decoder.decode, decoder.decode_lines


def _number_of_objects(data: bytes) -> int:
    r"""Return the number of lines if each begins and ends as an object of JSON does; otherwise, or without NumPy, 0.

    If there are as many values, each line is one value: a value that begins in one of the lines ends in the same.

    >>> import numpy
    >>> _number_of_objects(b'{}\n{"a": 1}'), _number_of_objects(b'{}\n\n{}'), _number_of_objects(b'{"a":\n1}')
    (2, 0, 0)
    """
    # Importing it for this would take longer than what it saves.
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not (data.startswith(b"{") and data.endswith(b"}")):
        return 0
    content = numpy.frombuffer(data, numpy.uint8)
    ends = numpy.flatnonzero(content == ord("\n"))
    is_each = (content[ends - 1] == ord("}")).all() and (content[ends + 1] == ord("{")).all()
    return len(ends) + 1 if is_each else 0


def _columns(kinds: Mapping[str, str], values: list[Any]) -> Any:
    """Return fields of values as a `pyarrow.RecordBatch`; None for a whole number of more than 64 bits."""
    import pyarrow

    try:
        columns = [pyarrow.array(list(map(attrgetter(name), values)), kind) for name, kind in kinds.items()]
    except OverflowError:
        return None
    return pyarrow.RecordBatch.from_arrays(columns, list(kinds))


def _joined(batches: list[Any]) -> Iterator[Bundle]:
    import pyarrow

    if batches:
        yield ColumnBundle(pyarrow.concat_batches(batches), as_rows)


class ReadFromJson(ReadFiles[A]):
    r"""The values of the JSON files that match a pattern: a dict, or an instance of `type`, for each object.

    Returns a `PCollection[dict[str, Any]]`, or of instances of `type`.

    With `lines`, one value on each line; without, one array a file.  With a `type`, such as a dataclass or a NamedTuple
    with annotations, values are checked and decoded to it, several times as fast as to dicts.  Raises `SourceError` if
    the pattern matches nothing, or for a line that is no JSON or of another type; `TypeError` for a `type` that JSON
    can't be decoded to.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.jsonl")
    >>> _ = path.write_text('{"name": "Ada"}\n{"name": "Grace"}\n')
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromJson(path) | beam.Map(print)
    {'name': 'Ada'}
    {'name': 'Grace'}

    >>> import typing
    >>> class Person(typing.NamedTuple):
    ...     name: str
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromJson(path, type=Person) | beam.Map(print)
    Person(name='Ada')
    Person(name='Grace')
    """

    @overload
    def __init__(
        self: ReadFromJson[dict[str, Any]],
        path: AnyPath,
        *,
        type: None = ...,
        lines: bool = ...,
        compression_type: str = ...,
        validate: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromJson[A],
        path: AnyPath,
        *,
        type: builtins.type[A],
        lines: bool = ...,
        compression_type: str = ...,
        validate: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromJson[Any],
        path: AnyPath,
        *,
        type: Any = ...,
        lines: bool = ...,
        compression_type: str = ...,
        validate: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        path: AnyPath,
        *,
        type: Any = None,
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        validate: bool = True,
    ) -> None:
        source = JsonSource(
            path, type=type, lines=lines, compression_type=compression_type, transform=self.__class__.__name__
        )
        super().__init__(source, validate, hint_of_type(type))


class WriteToJson(WriteFiles):
    r"""One JSON object for each record, on a line of its own, or one array a file.

    Takes a `PCollection[T]` of records or values of JSON.

    See `FileSink` and `JsonFormat`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([{"name": "Ada"}]) | beam.io.WriteToJson(directory / "people")
    >>> [(path.name, path.read_text()) for path in directory.iterdir()]
    [('people-00000-of-00001', '{"name":"Ada"}\n')]
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        lines: bool = True,
        num_shards: int = 0,
        file_name_suffix: str | ValueProvider = "",
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        skip_if_empty: bool = False,
        triggering_frequency: float | None = None,
    ) -> None:
        super().__init__(
            FileSink(
                path,
                JsonFormat(lines),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=compression_type,
                skip_if_empty=skip_if_empty,
                triggering_frequency=triggering_frequency,
                transform=type(self).__name__,
            )
        )
