"""JSON files: `ReadFromJson` and `WriteToJson`, with the source and the format behind them.

A file has one JSON value on each line, or one array of values. Files of lines are cut; an array is read whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from ...sdk.coders.coder import shortened
from ...sdk.errors import SinkError, SourceError
from ..records import as_dict, is_record
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .filesystem import AnyPath
from .format import FileFormat, RecordWriter
from .sink import FileSink
from .source import FileRange, ReadFiles
from .text import TextSource
from .write import WriteFiles

_PLAIN = frozenset({dict, list, str, int, float, bool, type(None)})


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
    r"""The values of JSON files, as `json.loads` returns them: mostly dicts.

    With `lines`, a file has one value on each line; blank lines are skipped.  Without, a file is one array, whose items
    are the elements, or one value.

    Invalid JSON raises `SourceError`, with the file and the line.

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
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        transform: str = "ReadFromJson",
    ) -> None:
        super().__init__(pattern, compression_type=compression_type, transform=transform)
        self.lines = lines

    def format_identity(self) -> Mapping[str, Any]:
        return {"lines": self.lines}

    def can_be_cut(self, path: str) -> bool:
        return self.lines and super().can_be_cut(path)

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        if not self.lines:
            yield self._whole(file_range.path)
            return
        decode = msgspec.json.Decoder().decode
        for offset, data, _terminated in self.blocks(file_range):
            lines = data.split(b"\n")
            try:
                yield [decode(line) for line in lines if line.strip()], len(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                yield self._decoded_one_by_one(file_range.path, offset, lines), len(data)

    def _decoded_one_by_one(self, path: str, offset: int, lines: list[bytes]) -> list[Any]:
        """Decode lines with `json`, which accepts a little more (such as NaN) and locates errors."""
        values = []
        for line in lines:
            if line.strip():
                try:
                    values.append(json.loads(line))
                except ValueError as error:
                    number = self.line_number(path, offset)
                    raise SourceError(
                        f"{self.transform}: {path!r}, line {number}, is not JSON: {error}: {shortened(line)}"
                    ) from error
            offset += len(line) + 1
        return values

    def _whole(self, path: str) -> tuple[list[Any], int]:
        with naming_the_file(path, self.compression_type), open_for_reading(path, self.compression_type) as file:
            data = file.read()
        try:
            value = json.loads(data)
        except ValueError as error:
            raise SourceError(f"{self.transform}: {path!r} is not JSON: {error}") from error
        return value if isinstance(value, list) else [value], len(data)


class ReadFromJson(ReadFiles):
    r"""The values of the JSON files that match a pattern: a dict for each object.

    With `lines`, one value on each line; without, one array a file.  Raises `SourceError` if the pattern matches
    nothing, or for a line that is no JSON.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "people.jsonl")
    >>> _ = path.write_text('{"name": "Ada"}\n{"name": "Grace"}\n')
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromJson(path) | beam.Map(print)
    {'name': 'Ada'}
    {'name': 'Grace'}
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        lines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        validate: bool = True,
    ) -> None:
        super().__init__(
            JsonSource(path, lines=lines, compression_type=compression_type, transform=type(self).__name__), validate
        )


class WriteToJson(WriteFiles):
    r"""One JSON object for each record, on a line of its own, or one array a file.

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
        file_name_suffix: str = "",
        shard_name_template: str | None = None,
        compression_type: str = CompressionTypes.AUTO,
        skip_if_empty: bool = False,
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
                transform=type(self).__name__,
            )
        )
