"""FileSinkWriter: what one worker does for a `FileSink`, the first of its two phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs

from ..sdk.bundle import BUNDLE_SIZE, Bundle
from ..sdk.errors import SinkError
from ..sdk.sink import SinkWriter
from .file_format import RecordWriter
from .filesystem import join_path

if TYPE_CHECKING:
    from .file_sink import FileSink


@attrs.frozen
class StagedFile:
    """A finished file in the staging directory.

    `shard` is its number where the elements came with one; `group` is what it holds the
    elements of, where a sink writes more than one kind of file.
    """

    name: str
    size: int
    shard: int | None = None
    group: Any = None


class FileSinkWriter(SinkWriter[Any]):
    """Writes one worker's elements into files in the staging directory.

    There is one open file for each shard and group that the elements are of.
    """

    def __init__(self, sink: FileSink, transaction: str, unit: str) -> None:
        self._sink = sink
        self._transaction = transaction
        self._directory = sink.staging_directory(transaction)
        self._unit = quote(unit, safe="")
        self._open: dict[tuple[int | None, Any], _OpenFile] = {}
        self._finished: list[StagedFile] = []
        self._names: list[str] = []

    def write(self, bundle: Bundle) -> None:
        if not self._sink.accepts_retractions and bundle.signs != 1 and -1 in _listed(bundle.signs):
            raise SinkError(f"{self._sink.transform}: a file can only be appended to, and got a retraction")
        with self._sink.naming_the_output("can't be written"):
            for shard, group, values in self._sink.parts_of(bundle):
                for chunk in _chunks(values):
                    self._write(shard, group, chunk)

    def stage(self) -> tuple[StagedFile, ...]:
        with self._sink.naming_the_output("can't be written"):
            for part in list(self._open):
                self._finish(part)
            if self._finished:
                self._sink.file_system.sync_directory(self._directory)
        return tuple(self._finished)

    def discard(self) -> None:
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        with self._sink.naming_the_output("can't be cleaned up"):
            for name in self._names:
                self._sink.file_system.delete(join_path(self._directory, name))

    def _write(self, shard: int | None, group: Any, values: list[Any]) -> None:
        most = self._sink.max_records_per_shard
        part = (shard, group)
        while values:
            file = self._open.pop(part, None) or self._begun(group)
            # The one written to last is the last: the first is to be closed when there are too many.
            self._open[part] = file
            now = values if most is None else values[: most - file.records]
            with self._naming_the_sink():
                file.write(now)
            values = values[len(now) :]
            if file.records == most:
                self._finish(part)

    def _begun(self, group: Any) -> _OpenFile:
        if len(self._open) == self._sink.max_open_files:
            self._finish(next(iter(self._open)))
        if not self._sink.has_dead_letters:
            # With dead letters the commit moves aside a file that can't have its name.
            self._sink.check_group(self._transaction, group)
        name = f"{self._unit}-{len(self._names)}"
        self._names.append(name)
        with self._naming_the_sink():
            return _OpenFile(self._sink.open_file(join_path(self._directory, name), group), name)

    def _finish(self, part: tuple[int | None, Any]) -> None:
        file = self._open.pop(part)
        with self._naming_the_sink():
            file.close()
        self._finished.append(self._sink.staged_file(self._directory, file.name, *part))

    @contextmanager
    def _naming_the_sink(self) -> Iterator[None]:
        """Formats know what is wrong with a value; here is known where it was to go."""
        try:
            yield
        except SinkError as error:
            raise SinkError(f"{self._sink.transform}: {self._sink.file_path_prefix!r}: {error}") from error.__cause__


class _OpenFile:
    """A file that a worker is writing."""

    def __init__(self, context: AbstractContextManager[RecordWriter], name: str) -> None:
        self.name = name
        self.records = 0
        self._context = context
        self._writer = context.__enter__()

    def write(self, values: list[Any]) -> None:
        self._writer.write(values)
        self.records += len(values)

    def close(self) -> None:
        self._context.__exit__(None, None, None)

    def abandon(self) -> None:
        """Close the file as it is; whatever goes wrong with that doesn't matter any more."""
        try:
            self._context.__exit__(_AbandonedError, _AbandonedError(), None)
        except Exception:
            return


class _AbandonedError(Exception):
    """Thrown into an open file that is to be removed."""


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    if isinstance(values, list) and len(values) <= BUNDLE_SIZE:
        yield values
        return
    iterator = iter(values)
    while chunk := list(islice(iterator, BUNDLE_SIZE)):
        yield chunk


def _listed(signs: list[int] | int) -> list[int]:
    return signs if isinstance(signs, list) else [signs]
