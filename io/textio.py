"""ReadFromText, WriteToText and their kin: one element for each line."""

from __future__ import annotations

from typing import Any

from ..sdk.coders.primitive import StrUtf8Coder, ToBytesCoder
from .compression import CompressionTypes
from .file_sink import FileSink
from .filesystem import AnyPath, EmptyMatchTreatment
from .read_files import DESIRED_BUNDLE_SIZE, ReadAllFiles, ReadFiles
from .text_format import TextFormat
from .text_source import TextSource
from .write import WriteFiles


class ReadFromText(ReadFiles):
    r"""The lines of the files that match a pattern, without their line ends.

    The arguments are Beam's; see `TextSource` for what they mean.  Raises `SourceError`
    when the pattern matches nothing: while the pipeline is built, or, with
    `validate=False`, while it runs.

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


class ReadFromTextWithFilename(ReadFromText):
    r"""The same as pairs of path and line.

    >>> import penstock as beam
    >>> import os, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lines.txt")
    >>> _ = path.write_text("to be\n")
    >>> with beam.Pipeline() as p:
    ...     lines = p | beam.io.ReadFromTextWithFilename(path)
    ...     _ = lines | beam.MapTuple(lambda file, line: (os.path.basename(file), line)) | beam.Map(print)
    ('lines.txt', 'to be')
    """

    _with_filename = True


class ReadAllFromText(ReadAllFiles):
    r"""The lines of the files that match patterns, which are its input.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "lines.txt")
    >>> _ = path.write_text("to be\n")
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([str(path)]) | beam.io.ReadAllFromText() | beam.Map(print)
    to be
    """

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
    r"""One line for each element, in files that appear all at once when the pipeline has succeeded.

    The arguments are Beam's; see `FileSink` and `TextFormat` for what they mean.

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
        file_name_suffix: str = "",
        append_trailing_newlines: bool = True,
        num_shards: int = 0,
        shard_name_template: str | None = None,
        coder: Any = ToBytesCoder(),
        compression_type: str = CompressionTypes.AUTO,
        header: str | bytes | None = None,
        footer: str | bytes | None = None,
        *,
        max_records_per_shard: int | None = None,
        skip_if_empty: bool = False,
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
                skip_if_empty=skip_if_empty,
                transform=type(self).__name__,
            )
        )
