"""JsonFormat: one JSON value on each line, or one array of them."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import msgspec

from ..sdk.coders.coder import shortened
from ..sdk.errors import SinkError
from .file_format import FileFormat, RecordWriter
from .records import as_dict, is_record

_PLAIN = frozenset({dict, list, str, int, float, bool, type(None)})


class JsonFormat(FileFormat):
    r"""One JSON value on each line, or, without `lines`, one array a file.

    Records (dicts, Rows, named tuples, dataclasses) become objects; other values are
    written as they are.  NaN and infinity, which JSON lacks, become null.

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
