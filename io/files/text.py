"""Text files: `ReadFromText`, `ReadAllFromText` and `WriteToText`, with the source and the format behind them.

Text is read in blocks of whole lines (`line_blocks`): one `decode` and one `split` for thousands of lines are as fast
as a Python loop over an open file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from ...sdk.coders.primitive import StrUtf8Coder, ToBytesCoder
from ...sdk.errors import SinkError, SourceError
from ...sdk.options.value_provider import ValueProvider
from ...sdk.type_variables import A
from .compression import CompressionTypes, naming_the_file, open_for_reading
from .filesystem import AnyPath, EmptyMatchTreatment
from .format import FileFormat, RecordWriter
from .line_blocks import end_of_lines, line_blocks, next_boundary
from .source import DESIRED_BUNDLE_SIZE, FileRange, FileSource, ReadAllFiles, ReadFiles
from .write import FileSink, WriteFiles

if TYPE_CHECKING:
    from ...sdk.pvalue import PBegin, PCollection

_NEWLINE = b"\n"


class TextFormat(FileFormat):
    r"""One line for each value, with an optional header and footer in every file.

    Args:
      coder: encodes a line; None for the encoding of Beam's `ToBytesCoder`: bytes unchanged, other values by `str`, as
        UTF-8.
      append_trailing_newlines: appends `\n` to every value, the header and the footer.
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
            # One join and one encode for all values.  `join` refuses other types than str.
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
    """Return bytes unchanged, and other values by `str` as UTF-8.  Raises `SinkError` for text without an encoding."""
    if isinstance(value, bytes):
        return value
    try:
        return str(value).encode()
    except UnicodeEncodeError as error:
        raise SinkError(f"the line {value!r:.100} has no UTF-8 encoding: {error.reason}") from error


class TextSource(FileSource[Any]):
    r"""The lines of the files that match a pattern.

    Args:
      pattern: see `FileSource`.
      skip_header_lines: the number of lines to skip at the top of each file.
      strip_trailing_newlines: removes the delimiter from a line.
      coder: decodes a line's bytes; None for UTF-8 text.
      delimiter: the bytes that end a line; None for `\n` and `\r\n`.
      escapechar: one byte that escapes a following delimiter or itself.  It stays in the line.  A file with escapes is
        read as one split.
      with_filename: emits pairs of path and line.

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
        """Yield the range's lines without header lines, as `line_blocks` does."""
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
        """Return the number, from 1, of the line of a byte.  Reads the file up to it."""
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
        where += "" if kind == CompressionTypes.UNCOMPRESSED else f" of the content decompressed by {kind}"
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
    # In `aXaXa` either `aXa` could end the line.
    if any(delimiter.startswith(delimiter[i:]) for i in range(1, len(delimiter))):
        raise ValueError(f"{transform}: the delimiter {delimiter!r} overlaps itself, so lines can't be told apart")


class ReadFromText(ReadFiles[A]):
    r"""The lines of the files that match a pattern, without their line ends.

    Returns a `PCollection[str]`, or of what a `coder` decodes.

    The arguments are Beam's; `TextSource` explains them.  Raises `SourceError` if the pattern matches nothing: while
    the pipeline is built, or, with `validate=False`, while it runs.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lines.txt")
    >>> _ = path.write_text("to be\nor not to be\n")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromText(path) | beam.Map(print)
    to be
    or not to be
    """

    _with_filename = False

    @overload
    def __init__(
        self: ReadFromText[str],
        file_pattern: AnyPath,
        min_bundle_size: int = ...,
        compression_type: str = ...,
        strip_trailing_newlines: bool = ...,
        *,
        validate: bool = ...,
        skip_header_lines: int = ...,
        delimiter: bytes | None = ...,
        escapechar: bytes | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromText[Any],
        file_pattern: AnyPath,
        min_bundle_size: int = ...,
        compression_type: str = ...,
        strip_trailing_newlines: bool = ...,
        coder: Any = ...,
        validate: bool = ...,
        skip_header_lines: int = ...,
        delimiter: bytes | None = ...,
        escapechar: bytes | None = ...,
    ) -> None: ...
    def __init__(
        self,
        file_pattern: AnyPath,
        min_bundle_size: int = 0,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        coder: Any = StrUtf8Coder(),
        validate: bool = True,
        skip_header_lines: int = 0,
        delimiter: bytes | None = None,
        escapechar: bytes | None = None,
    ) -> None:
        source = TextSource(
            file_pattern,
            min_bundle_size=min_bundle_size,
            compression_type=compression_type,
            strip_trailing_newlines=strip_trailing_newlines,
            coder=coder,
            skip_header_lines=skip_header_lines,
            delimiter=delimiter,
            escapechar=escapechar,
            with_filename=self._with_filename,
            transform=type(self).__name__,
        )
        kind = coder.to_type_hint()
        super().__init__(source, validate, tuple[str, kind] if self._with_filename else kind)  # type: ignore[valid-type]


class ReadFromTextWithFilename(ReadFromText[Any]):
    r"""The lines of the files that match a pattern, as pairs of path and line.

    Returns a `PCollection[tuple[str, str]]`.

    >>> import penstock as beam
    >>> import os, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lines.txt")
    >>> _ = path.write_text("to be\n")
    >>> with beam.Pipeline() as p:
    ...     lines = p | beam.io.ReadFromTextWithFilename(path)
    ...     _ = lines | beam.MapTuple(lambda file, line: (os.path.basename(file), line)) | beam.Map(print)
    ('lines.txt', 'to be')
    """

    if TYPE_CHECKING:
        # A coder gives other lines.
        def expand(self, pbegin: PBegin) -> PCollection[tuple[str, Any]]: ...

    _with_filename = True


class ReadAllFromText(ReadAllFiles[A]):
    r"""The lines of the files that match the patterns of its input.

    Returns a `PCollection[str]`, or of pairs with the file's path.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lines.txt")
    >>> _ = path.write_text("to be\n")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([str(path)]) | beam.io.ReadAllFromText() | beam.Map(print)
    to be
    """

    @overload
    def __init__(
        self: ReadAllFromText[str],
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        validate: bool = False,
        coder: Any = StrUtf8Coder(),
        skip_header_lines: int = 0,
        with_filename: Literal[False] = False,
        delimiter: bytes | None = None,
        escapechar: bytes | None = None,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadAllFromText[tuple[str, str]],
        *,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        validate: bool = False,
        coder: Any = StrUtf8Coder(),
        skip_header_lines: int = 0,
        with_filename: Literal[True],
        delimiter: bytes | None = None,
        escapechar: bytes | None = None,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadAllFromText[Any],
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        validate: bool = False,
        coder: Any = StrUtf8Coder(),
        skip_header_lines: int = 0,
        with_filename: bool = False,
        delimiter: bytes | None = None,
        escapechar: bytes | None = None,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD,
    ) -> None: ...
    def __init__(
        self,
        min_bundle_size: int = 0,
        desired_bundle_size: int = DESIRED_BUNDLE_SIZE,
        compression_type: str = CompressionTypes.AUTO,
        strip_trailing_newlines: bool = True,
        validate: bool = False,
        coder: Any = StrUtf8Coder(),
        skip_header_lines: int = 0,
        with_filename: bool = False,
        delimiter: bytes | None = None,
        escapechar: bytes | None = None,
        empty_match_treatment: str = EmptyMatchTreatment.ALLOW_IF_WILDCARD,
    ) -> None:
        source = TextSource(
            "",
            min_bundle_size=min_bundle_size,
            compression_type=compression_type,
            strip_trailing_newlines=strip_trailing_newlines,
            coder=coder,
            skip_header_lines=skip_header_lines,
            delimiter=delimiter,
            escapechar=escapechar,
            transform=type(self).__name__,
        )
        super().__init__(
            source,
            desired_bundle_size=desired_bundle_size,
            empty_match_treatment=EmptyMatchTreatment.DISALLOW if validate else empty_match_treatment,
            with_filename=with_filename,
            element_type=coder.to_type_hint(),
        )


class WriteToText(WriteFiles):
    r"""One line for each element, in files that appear together once the pipeline has succeeded.

    Takes a `PCollection[T]`, of any type.

    The arguments are Beam's; `FileSink` and `TextFormat` explain them.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create(["to be"]) | beam.io.WriteToText(directory / "out", file_name_suffix=".txt")
    >>> [(path.name, path.read_text()) for path in directory.iterdir()]
    [('out-00000-of-00001.txt', 'to be\n')]
    """

    def __init__(
        self,
        file_path_prefix: AnyPath,
        file_name_suffix: str | ValueProvider = "",
        append_trailing_newlines: bool = True,
        num_shards: int = 0,
        shard_name_template: str | None = None,
        coder: Any = ToBytesCoder(),
        compression_type: str = CompressionTypes.AUTO,
        header: str | bytes | None = None,
        footer: str | bytes | None = None,
        *,
        max_records_per_shard: int | None = None,
        max_bytes_per_shard: int | None = None,
        skip_if_empty: bool = False,
        triggering_frequency: float | None = None,
    ) -> None:
        super().__init__(
            FileSink(
                file_path_prefix,
                TextFormat(coder, append_trailing_newlines, header, footer),
                file_name_suffix=file_name_suffix,
                num_shards=num_shards,
                shard_name_template=shard_name_template,
                compression_type=compression_type,
                max_records_per_shard=max_records_per_shard,
                max_bytes_per_shard=max_bytes_per_shard,
                skip_if_empty=skip_if_empty,
                triggering_frequency=triggering_frequency,
                transform=type(self).__name__,
            )
        )
