"""TextFormat: one line for each value."""

from __future__ import annotations

from typing import Any, BinaryIO

from ..sdk.coders.primitive import ToBytesCoder
from ..sdk.errors import SinkError
from .file_format import FileFormat, RecordWriter


class TextFormat(FileFormat):
    r"""One line for each value, with an optional header and footer in every file.

    Args:
      coder: makes the bytes of a line; None for what Beam's `ToBytesCoder` does: bytes as
        they are, anything else by `str`, as UTF-8.
      append_trailing_newlines: whether every value, the header and the footer get a `\n`.
      header, footer: str or bytes.

    >>> import io
    >>> file = io.BytesIO()
    >>> writer = TextFormat(header="n").open(file)
    >>> writer.write([1, 2]); writer.close()
    >>> file.getvalue()
    b'n\n1\n2\n'
    """

    def __init__(
        self,
        coder: Any = None,
        append_trailing_newlines: bool = True,
        header: str | bytes | None = None,
        footer: str | bytes | None = None,
    ) -> None:
        self.coder = None if type(coder) is ToBytesCoder else coder
        self.append_trailing_newlines = append_trailing_newlines
        self.header = header
        self.footer = footer

    def open(self, file: BinaryIO) -> RecordWriter:
        return _TextWriter(self, file)


class _TextWriter(RecordWriter):
    def __init__(self, form: TextFormat, file: BinaryIO) -> None:
        self._file = file
        self._newline = "\n" if form.append_trailing_newlines else ""
        self._footer = form.footer
        self._encode = form.coder.encode if form.coder is not None else None
        if form.header is not None:
            self._write_encoded([to_bytes(form.header)])

    def write(self, values: list[Any]) -> None:
        if not values:
            return
        if self._encode is not None:
            self._write_encoded([self._encode(value) for value in values])
            return
        try:
            # One join and one encode for all of them; `join` refuses what is not a str.
            text = self._newline.join(values)
        except TypeError:
            self._write_encoded([to_bytes(value) for value in values])
            return
        try:
            self._file.write((text + self._newline).encode())
        except UnicodeEncodeError:
            self._write_encoded([to_bytes(value) for value in values])

    def close(self) -> None:
        if self._footer is not None:
            self._write_encoded([to_bytes(self._footer)])

    def _write_encoded(self, lines: list[bytes]) -> None:
        newline = self._newline.encode()
        self._file.write(newline.join(lines) + newline)


def to_bytes(value: Any) -> bytes:
    """Bytes as they are, anything else by `str`, as UTF-8; `SinkError` where that has no encoding."""
    if isinstance(value, bytes):
        return value
    try:
        return str(value).encode()
    except UnicodeEncodeError as error:
        raise SinkError(f"the line {value!r:.100} has no UTF-8 encoding: {error.reason}") from error
