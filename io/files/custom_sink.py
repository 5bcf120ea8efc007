"""FileBasedSink: Beam's base class of a sink with a format of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...sdk.options.value_provider import ValueProvider
from .compression import CompressionTypes
from .filesystem import AnyPath
from .format import RecordWriter
from .sink import FileSink


class FileBasedSink(FileSink):
    r"""Base class of sinks that define how a file is opened, how a value is written, and how a file is closed.

    `open(temp_path)` returns a handle.  `write_record(handle, value)` or `write_encoded_record(handle, encoded)` writes
    to it, and `close(handle)` closes it.  By default encoded values are concatenated.  `FileSink` describes when files
    appear, and their names.

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
        super().__init__(
            file_path_prefix,
            file_name_suffix=file_name_suffix,
            num_shards=num_shards,
            shard_name_template=shard_name_template,
            compression_type=compression_type,
            max_records_per_shard=max_records_per_shard,
            max_bytes_per_shard=max_bytes_per_shard,
            skip_if_empty=skip_if_empty,
            triggering_frequency=triggering_frequency,
        )
        self.coder = coder
        self.mime_type = mime_type
        self.convert_fn = convert_fn

    def open(self, temp_path: str) -> Any:
        """Open a file, and return the handle that the other methods are given."""
        return self.create_file(temp_path)

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

    @contextmanager
    def open_file(self, path: str, group: Any = None) -> Iterator[RecordWriter]:
        handle = self.open(path)
        try:
            yield _UserWriter(self, handle)
        finally:
            self.close(handle)


class _UserWriter(RecordWriter):
    def __init__(self, sink: FileBasedSink, handle: Any) -> None:
        self._sink = sink
        self._handle = handle

    def write(self, values: list[Any]) -> None:
        for value in values:
            self._sink.write_record(self._handle, value)

    def close(self) -> None:
        pass
