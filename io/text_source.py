"""TextSource: the lines of text files.

Read in blocks of whole lines: one `decode` and one `split` for thousands of lines, which
is what makes this as fast as a Python loop over an open file (docs: see `line_blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

from ..sdk.coders.primitive import StrUtf8Coder
from ..sdk.errors import SourceError
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .file_source import FileRange, FileSource
from .filesystem import AnyPath
from .line_blocks import end_of_lines, line_blocks, next_boundary

_NEWLINE = b"\n"


class TextSource(FileSource[Any]):
    r"""The lines of the files that match a pattern.

    Args:
      pattern: see `FileSource`.
      skip_header_lines: how many lines at the top of each file are no elements.
      strip_trailing_newlines: whether a line comes without what ends it.
      coder: what makes an element of a line's bytes; None for `str`, as UTF-8.
      delimiter: the bytes that end a line; None for `\n` and `\r\n`.
      escapechar: one byte that takes the meaning from a delimiter, or itself, after it.
        It stays in the line.  Such a file is read as one split.
      with_filename: make each element a pair of path and line.

    Bytes that are no UTF-8 raise `SourceError`, with the file and the offset.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lines.txt")
    >>> _ = path.write_text("name\nAda\nGrace\n")
    >>> source = TextSource(path, skip_header_lines=1)
    >>> [bundle.values for split in source.split(1) for bundle in source.read_bundles(split)]
    [['Ada', 'Grace']]
    """

    def __init__(
        self,
        pattern: AnyPath,
        *,
        skip_header_lines: int = 0,
        strip_trailing_newlines: bool = True,
        compression_type: str = CompressionTypes.AUTO,
        coder: Any = None,
        delimiter: bytes | None = None,
        escapechar: bytes | None = None,
        with_filename: bool = False,
        min_bundle_size: int = 0,
        transform: str = "ReadFromText",
    ) -> None:
        super().__init__(
            pattern, compression_type=compression_type, min_bundle_size=min_bundle_size, transform=transform
        )
        if skip_header_lines < 0:
            raise ValueError(f"{transform}: skip_header_lines must be 0 or more, got {skip_header_lines}")
        if delimiter is not None:
            _check_delimiter(transform, delimiter)
        if escapechar is not None and (not isinstance(escapechar, bytes) or len(escapechar) != 1):
            raise ValueError(f"{transform}: escapechar must be one byte, such as b'\\\\', got {escapechar!r}")
        self.skip_header_lines = skip_header_lines
        self.strip_trailing_newlines = strip_trailing_newlines
        self.coder = None if type(coder) is StrUtf8Coder else coder
        self.delimiter = delimiter
        self.escapechar = escapechar
        self.with_filename = with_filename

    def format_identity(self) -> Mapping[str, Any]:
        return {
            "skip_header_lines": self.skip_header_lines,
            "delimiter": None if self.delimiter is None else repr(self.delimiter),
            "escapechar": None if self.escapechar is None else repr(self.escapechar),
        }

    def can_be_cut(self, path: str) -> bool:
        return self.escapechar is None and super().can_be_cut(path)

    def read_range(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        if self.escapechar is not None:
            chunks = self._escaped_lines(file_range)
        elif self.coder is None and _is_utf8(self.delimiter):
            chunks = self._text_lines(file_range)
        else:
            chunks = self._coded_lines(file_range)
        path = file_range.path
        for lines, size in chunks:
            yield [(path, line) for line in lines] if self.with_filename else lines, size

    def blocks(self, file_range: FileRange) -> Iterator[tuple[int, bytes, bool]]:
        """The range's lines without header lines, as `line_blocks`."""
        path, compression, delimiter = file_range.path, self.compression_type, self.delimiter or _NEWLINE
        with naming_the_file(path, compression):
            begin = 0
            if self.skip_header_lines and self.escapechar is None:
                with open_for_reading(path, compression) as file:
                    begin = end_of_lines(file, self.skip_header_lines, delimiter)
            with open_for_reading(path, compression) as file:
                end = None
                if file_range.stop is None:
                    _pass(file, begin)
                else:
                    begin = max(begin, next_boundary(file, file_range.start, delimiter))
                    whole = file_range.stop >= file_range.file_size
                    end = file_range.file_size if whole else next_boundary(file, file_range.stop, delimiter)
                    file.seek(begin)
                yield from line_blocks(file, begin, end, delimiter)

    def line_number(self, path: str, offset: int) -> int:
        """The number, from 1, of the line that a byte is in.  Reads the file up to there."""
        with open_for_reading(path, self.compression_type) as file:
            number = 1
            while offset > 0 and (block := file.read(min(offset, 1 << 20))):
                number += block.count(self.delimiter or _NEWLINE)
                offset -= len(block)
        return number

    def _text_lines(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        delimiter = (self.delimiter or _NEWLINE).decode()
        for offset, data, terminated in self.blocks(file_range):
            try:
                text = data.decode()
            except UnicodeDecodeError as error:
                raise self._not_utf8(file_range.path, offset + error.start, data[error.start]) from error
            if self.strip_trailing_newlines and self.delimiter is None and "\r" in text:
                if terminated and text.endswith("\r"):
                    text = text[:-1]
                text = text.replace("\r\n", "\n")
            lines = text.split(delimiter)
            if not self.strip_trailing_newlines:
                lines = [line + delimiter for line in lines[:-1]] + [lines[-1] + delimiter * terminated]
            yield lines, len(data)

    def _coded_lines(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        decode = self._decoder(file_range.path)
        for _offset, data, terminated in self.blocks(file_range):
            lines = data.split(self.delimiter or _NEWLINE)
            yield [decode(line) for line in self._ended(lines, terminated)], len(data)

    def _ended(self, lines: list[bytes], terminated: bool) -> list[bytes]:
        delimiter = self.delimiter or _NEWLINE
        if not self.strip_trailing_newlines:
            return [line + delimiter for line in lines[:-1]] + [lines[-1] + delimiter * terminated]
        if self.delimiter is None:
            last = lines[-1].removesuffix(b"\r") if terminated else lines[-1]
            return [line.removesuffix(b"\r") for line in lines[:-1]] + [last]
        return lines

    def _escaped_lines(self, file_range: FileRange) -> Iterator[tuple[list[Any], int]]:
        decode = self._decoder(file_range.path)
        lines = self._joined_at_escapes(file_range)
        for _ in islice(lines, self.skip_header_lines):
            pass
        while chunk := list(islice(lines, 4096)):
            yield [decode(line) for line in chunk], sum(map(len, chunk))

    def _joined_at_escapes(self, file_range: FileRange) -> Iterator[bytes]:
        escape, delimiter = self.escapechar or b"", self.delimiter or _NEWLINE
        started = b""
        for _offset, data, terminated in self.blocks(file_range):
            pieces = data.split(delimiter)
            for i, piece in enumerate(pieces):
                line = started + piece
                ended = terminated or i < len(pieces) - 1
                if ended and (len(line) - len(line.rstrip(escape))) % 2:
                    started = line + delimiter
                    continue
                started = b""
                yield self._ended([line], ended)[0]
        if started:
            yield started

    def _decoder(self, path: str) -> Any:
        if self.coder is not None:
            return self.coder.decode

        def decode(line: bytes) -> str:
            try:
                return line.decode()
            except UnicodeDecodeError as error:
                raise self._not_utf8(path, None, line[error.start]) from error

        return decode

    def _not_utf8(self, path: str, offset: int | None, byte: int) -> SourceError:
        where = "" if offset is None else f" at byte {offset}"
        kind = CompressionTypes.resolve(self.compression_type, path)
        where += "" if kind == CompressionTypes.UNCOMPRESSED else f" of what {kind} decompressed"
        return SourceError(
            f"{self.transform}: {path!r} is not UTF-8{where} (0x{byte:02x}); "
            "to read other bytes give a coder: BytesCoder() for bytes, or one whose decode() knows the encoding"
        )


def _pass(file: BinaryIO, size: int) -> None:
    """Read past some bytes of a file that can't be read from the middle."""
    while size > 0 and (block := file.read(min(size, 1 << 20))):
        size -= len(block)


def _is_utf8(delimiter: bytes | None) -> bool:
    try:
        (delimiter or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_delimiter(transform: str, delimiter: bytes) -> None:
    if not isinstance(delimiter, bytes) or not delimiter:
        raise ValueError(f"{transform}: delimiter must be bytes, at least one, got {delimiter!r}")
    # In `aXaXa` nobody could say which `aXa` ends the line.
    if any(delimiter.startswith(delimiter[i:]) for i in range(1, len(delimiter))):
        raise ValueError(f"{transform}: the delimiter {delimiter!r} overlaps itself, so lines can't be told apart")
