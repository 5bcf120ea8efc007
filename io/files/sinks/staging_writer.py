"""FileSinkWriter: one worker's elements in files of the staging directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, Protocol
from urllib.parse import quote

from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.errors import SinkError
from ....sdk.sink import SinkContext, SinkSpec, SinkWriter
from ..compression import CountingFile
from ..filesystem import FileSystem, join_path
from ..format import RecordWriter
from .staged_file import StagedFile


class StagingSink(Protocol):
    """The sink of a writer: where its files are, and how they are opened."""

    spec: SinkSpec
    file_path_prefix: str
    max_records_per_shard: int | None
    max_bytes_per_shard: int | None
    # The number of files that a worker has open at once; None for the number of shards.
    max_open_files: int | None
    # The last created file, if its bytes are counted.
    counted: CountingFile | None

    @property
    def file_system(self) -> FileSystem:
        """Return the file system of the output."""
        ...

    def staging_directory(self, context: SinkContext) -> str:
        """Return the directory of a transaction's files until its commit."""
        ...

    def parts_of(self, bundle: Bundle) -> Iterable[tuple[int | None, Any, Any]]:
        """Yield the values of a bundle, or columns, by shard and group.  Each of these has its own file."""
        ...

    def check_group(self, context: SinkContext, group: Any) -> None:
        """Raise `SinkError`, before files are staged, if the files of a group can't be published."""

    def open_file(self, path: str, group: Any = None) -> AbstractContextManager[RecordWriter]:
        """Open a writer of records into a new file, which is complete once the block is left."""
        ...

    def staged_file(
        self, directory: str, name: str, shard: int | None, group: Any = None, elements: int = 0
    ) -> StagedFile:
        """Sync a complete file and return it."""
        ...

    def naming_the_output(self, context: SinkContext, what: str) -> AbstractContextManager[None]:
        """Turn an `OSError` into a `SinkError` that names the transform, the path and what was found."""
        ...


class FileSinkWriter(SinkWriter[Any]):
    """Writer of one worker's elements into files in the staging directory.

    Each shard and group of the elements has one open file.
    """

    def __init__(self, sink: StagingSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._directory = sink.staging_directory(context)
        self._unit = quote(context.unit, safe="")
        self._open: dict[tuple[int | None, Any], _OpenFile] = {}
        self._finished: list[StagedFile] = []
        self._names: list[str] = []

    def write(self, bundle: Bundle) -> None:
        if not self._sink.spec.accepts_retractions and bundle.signs != 1 and -1 in _listed(bundle.signs):
            raise SinkError(f"{self._context.label}: a file can only be appended to, and got a retraction")
        with self._sink.naming_the_output(self._context, "can't be written"):
            for shard, group, values in self._sink.parts_of(bundle):
                for chunk in _chunks(values):
                    self._write(shard, group, chunk)

    def stage(self) -> tuple[StagedFile, ...]:
        with self._sink.naming_the_output(self._context, "can't be written"):
            for part in list(self._open):
                self._finish(part)
            if self._finished:
                self._sink.file_system.sync_directory(self._directory)
        return tuple(self._finished)

    def discard(self) -> None:
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        with self._sink.naming_the_output(self._context, "can't be cleaned up"):
            for name in self._names:
                self._sink.file_system.delete(join_path(self._directory, name))

    def _write(self, shard: int | None, group: Any, values: list[Any] | ColumnBundle) -> None:
        most, most_bytes = self._sink.max_records_per_shard, self._sink.max_bytes_per_shard
        part = (shard, group)
        while len(values):
            file = self._open.pop(part, None) or self._begun(group)
            # The least recently written file comes first; it is closed when too many files are open.
            self._open[part] = file
            now = values if most is None else _part(values, 0, most - file.records)
            if most_bytes is not None:
                now = _part(now, 0, 1)
            with self._naming_the_sink():
                file.write(now)
            values = _part(values, len(now), len(values))
            if file.records == most or (most_bytes is not None and file.bytes >= most_bytes):
                self._finish(part)

    def _begun(self, group: Any) -> _OpenFile:
        if len(self._open) == self._sink.max_open_files:
            self._finish(next(iter(self._open)))
        if not self._context.dead_letters:
            # With dead letters the commit moves a file whose name is refused.
            self._sink.check_group(self._context, group)
        name = f"{self._unit}-{len(self._names)}"
        self._names.append(name)
        with self._naming_the_sink():
            file = _OpenFile(self._sink.open_file(join_path(self._directory, name), group), name)
        file.counted = self._sink.counted
        return file

    def _finish(self, part: tuple[int | None, Any]) -> None:
        file = self._open.pop(part)
        with self._naming_the_sink():
            file.close()
        self._finished.append(self._sink.staged_file(self._directory, file.name, *part, elements=file.records))

    @contextmanager
    def _naming_the_sink(self) -> Iterator[None]:
        """Add the transform and the path to the errors of a format."""
        try:
            yield
        except SinkError as error:
            label, prefix = self._context.label, self._sink.file_path_prefix
            raise SinkError(f"{label}: {prefix!r}: {error}") from error.__cause__


class _OpenFile:
    """An open file of a worker."""

    counted: CountingFile | None = None

    def __init__(self, context: AbstractContextManager[RecordWriter], name: str) -> None:
        self.name = name
        self.records = 0
        self._context = context
        self._writer = context.__enter__()

    def write(self, values: list[Any] | ColumnBundle) -> None:
        if isinstance(values, ColumnBundle):
            self._writer.write_columns(values)
        else:
            self._writer.write(values)
        self.records += len(values)

    @property
    def bytes(self) -> int:
        return 0 if self.counted is None else self.counted.bytes

    def close(self) -> None:
        self._context.__exit__(None, None, None)

    def abandon(self) -> None:
        """Close an incomplete file, ignoring errors."""
        try:
            self._context.__exit__(_AbandonedError, _AbandonedError(), None)
        except Exception:
            return


class _AbandonedError(Exception):
    """Thrown into an open file that is going to be removed."""


def _part(values: list[Any] | ColumnBundle, start: int, stop: int) -> list[Any] | ColumnBundle:
    return values.part(start, stop) if isinstance(values, ColumnBundle) else values[start:stop]


def _chunks(values: Any) -> Iterator[list[Any] | ColumnBundle]:
    if isinstance(values, ColumnBundle) or (isinstance(values, list) and len(values) <= BUNDLE_SIZE):
        yield values
        return
    iterator = iter(values)
    while chunk := list(islice(iterator, BUNDLE_SIZE)):
        yield chunk


def _listed(signs: list[int] | int) -> list[int]:
    return signs if isinstance(signs, list) else [signs]
