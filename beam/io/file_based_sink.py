"""FileBasedSink: Beam's base class of a sink of files with a format of the user's own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from ...io.files.compression import CompressionTypes
from ...io.files.filesystem import AnyPath
from ...io.files.format import RecordWriter
from ...io.files.write import FileSink
from ...sdk.adapters import convert_sinks
from ...sdk.options.value_provider import ValueProvider
from ...sdk.sink import ComposedSink
from .file_system import BeamIOError
from .file_systems import FileSystems
from .sink import Sink, WriteByWriters, Writer

_PROTOCOL = ("initialize_write", "open_writer", "pre_finalize", "finalize_write")


class FileBasedSink(Sink):
    r"""Base class of sinks that define how a file is opened, how a value is written, and how a file is closed.

    `open(temp_path)` returns a handle.  `write_record(handle, value)` or `write_encoded_record(handle, encoded)` writes
    to it, and `close(handle)` closes it.  By default encoded values are concatenated.  `FileSink` describes the other
    arguments, when files appear, and their names.

    A subclass that overrides `initialize_write`, `open_writer`, `pre_finalize` or `finalize_write` is written as any
    `Sink` of `io.iobase`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> class Lines(FileBasedSink):
    ...     def write_encoded_record(self, file_handle, encoded_value):
    ...         file_handle.write(encoded_value + b"\n")
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     lines = Lines(str(directory / "out"), coder=beam.coders.ToBytesCoder())
    ...     _ = p | beam.Create([1, 2]) | beam.io.Write(lines)
    >>> [path.read_text() for path in directory.iterdir()]
    ['1\n2\n']

    Args:
      coder: encodes the values for `write_encoded_record`.
      mime_type: accepted, without effect.
      convert_fn: accepted, without effect.
    """

    def __init__(
        self,
        file_path_prefix: AnyPath,
        coder: Any,
        file_name_suffix: str | ValueProvider = "",
        num_shards: int = 0,
        shard_name_template: str | None = None,
        mime_type: str = "application/octet-stream",
        compression_type: str = CompressionTypes.AUTO,
        *,
        max_records_per_shard: int | None = None,
        max_bytes_per_shard: int | None = None,
        skip_if_empty: bool = False,
        convert_fn: Any = None,
        triggering_frequency: float | None = None,
    ) -> None:
        self._files = files = _Files(
            file_path_prefix,
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
        files.sink = self
        self.file_path_prefix = files.file_path_prefix
        self.file_name_suffix = files.file_name_suffix
        self.shard_name_template = files.shard_name_template
        self.num_shards = files.num_shards
        self.compression_type = compression_type
        self.max_records_per_shard = max_records_per_shard
        self.max_bytes_per_shard = max_bytes_per_shard
        self.skip_if_empty = skip_if_empty
        self.triggering_frequency = triggering_frequency
        self.coder = coder
        self.mime_type = mime_type
        self.convert_fn = convert_fn

    def open(self, temp_path: str) -> Any:
        """Open a file, and return the handle that the other methods are given."""
        return self._files.create_file(temp_path)

    def write_record(self, file_handle: Any, value: Any) -> None:
        """Write one value."""
        self.write_encoded_record(file_handle, self.coder.encode(value))

    def write_encoded_record(self, file_handle: Any, encoded_value: bytes) -> None:
        """Write one value encoded by the coder."""
        file_handle.write(encoded_value)

    def close(self, file_handle: Any) -> None:
        """End the file."""
        if file_handle is not None:
            file_handle.close()

    def display_data(self) -> dict[str, Any]:
        return self._files.display_data()

    def adapted(self) -> ComposedSink:
        """Return the sink of the core that writes it."""
        is_own = any(getattr(type(self), name) is not getattr(FileBasedSink, name) for name in _PROTOCOL)
        return WriteByWriters(self) if is_own else self._files

    def initialize_write(self) -> str:
        """Make a directory for temporary files beside the output, and return its path.

        Raises `ValueError` for a path of the output that has no directory.
        """
        prefix = self.file_path_prefix.rstrip("/")
        directory, name = FileSystems.split(prefix)
        if not prefix or not name:
            raise ValueError(f"{type(self).__name__}: {self.file_path_prefix!r} must have a directory and a name")
        path = FileSystems.join(directory, f"beam-temp-{name}-{uuid4().hex}")
        FileSystems.mkdirs(path)
        return path

    def open_writer(self, init_result: str, uid: str) -> FileBasedSinkWriter:
        """Return a writer of a temporary file; its `close` returns the path."""
        return FileBasedSinkWriter(self, FileSystems.join(init_result, uid) + self.file_name_suffix)

    def pre_finalize(self, init_result: str, writer_results: Sequence[str]) -> None:
        """Remove the files of an earlier run that have the names of this one's."""
        if earlier := [path for path in self._final_paths(len(writer_results)) if FileSystems.exists(path)]:
            FileSystems.delete(earlier)

    def finalize_write(
        self, init_result: str, writer_results: Sequence[str], pre_finalize_result: Any = None
    ) -> Iterator[str]:
        """Rename the temporary files, yield their final paths, and remove their directory.

        Called again, it renames and yields what was left.  Raises `BeamIOError` for a file that is neither in the
        directory nor under its final name.
        """
        temporary = sorted(writer_results)
        renamed: list[tuple[str, str]] = []
        for source, final in zip(temporary, self._final_paths(len(temporary)), strict=True):
            if FileSystems.exists(source):
                renamed.append((source, final))
            elif not FileSystems.exists(final):
                raise BeamIOError(
                    f"{type(self).__name__}: the temporary file {source!r} does not exist, nor does {final!r}; was it "
                    "removed before finalize_write?"
                )
        if renamed:
            FileSystems.rename([source for source, _ in renamed], [final for _, final in renamed])
        yield from (final for _, final in renamed)
        if FileSystems.exists(init_result):
            FileSystems.delete([init_result])

    def opened(self, path: str) -> _Opened:
        """Return a new file."""
        return _Opened(self, self._files, path)

    def _final_paths(self, shards: int) -> list[str]:
        return [self._files.final_path("", shard, shards) for shard in range(shards)]


convert_sinks(FileBasedSink, FileBasedSink.adapted)


class FileBasedSinkWriter(Writer):
    """Writer of one temporary file of a `FileBasedSink`."""

    def __init__(self, sink: FileBasedSink, temp_shard_path: str) -> None:
        self.sink = sink
        self.temp_shard_path = temp_shard_path
        self.num_records_written = 0
        self._opened = sink.opened(temp_shard_path)

    def write(self, value: Any) -> None:
        self._opened.write([value])
        self.num_records_written += 1

    def at_capacity(self) -> bool:
        records, size = self.sink.max_records_per_shard, self.sink.max_bytes_per_shard
        return (records is not None and self.num_records_written >= records) or (
            size is not None and self._opened.bytes >= size
        )

    def close(self) -> str:
        self._opened.close_file()
        return self.temp_shard_path


class _Files(FileSink):
    """The output files of a FileBasedSink."""

    sink: FileBasedSink

    @contextmanager
    def open_file(self, path: str, group: Any = None) -> Iterator[RecordWriter]:
        opened = _Opened(self.sink, self, path)
        self.counted = opened.files.counted
        try:
            yield opened
        finally:
            opened.close_file()


class _Opened(RecordWriter):
    """An open file.  Each has a sink of its own, whose `open` notes the file whose bytes are counted."""

    def __init__(self, sink: FileBasedSink, files: _Files, path: str) -> None:
        self._sink = copy.copy(sink)
        self._sink._files = self.files = copy.copy(files)
        self._handle = self._sink.open(path)

    @property
    def bytes(self) -> int:
        return 0 if self.files.counted is None else self.files.counted.bytes

    def write(self, values: list[Any]) -> None:
        for value in values:
            self._sink.write_record(self._handle, value)

    def close(self) -> None:
        pass

    def close_file(self) -> None:
        self._sink.close(self._handle)
