"""FileSink: files that appear all at once, when the whole run has succeeded.

The two phases, for every format:

1. Each worker writes into files of its own in a hidden directory beside the destination,
   `.<name>.penstock-<transaction>`, and makes them durable.
2. Committing writes down which file gets which name (`commit_plan`), renames them, and
   removes the directory.

A crash in phase 1 leaves nothing but the hidden directory, which patterns never match.
A crash in phase 2 is completed by committing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Any, BinaryIO, ClassVar
from urllib.parse import quote

import attrs

from ..sdk.bundle import BUNDLE_SIZE, Bundle
from ..sdk.errors import SinkError
from ..sdk.sink import Sink, SinkWriter
from .commit_plan import Renaming, carry_out, read_plan, write_plan
from .compression import CompressionTypes, open_for_writing
from .file_format import FileFormat, RecordWriter
from .filesystem import AnyPath, FileSystem, filesystem_for, join_path, path_string, split_path
from .shard_names import DEFAULT_SHARD_NAME_TEMPLATE, shard_name, tells_shards_apart


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


class FileSink(Sink[Any]):
    """Files of one format, named `<prefix><shard><suffix>`.

    Args:
      file_path_prefix: the directory and the beginning of the names.
      file_format: how values become bytes.
      file_name_suffix: the end of the names, such as '.txt'.
      shard_name_template: see `shard_name`; '' is for a single file.
      num_shards: how many files; 0 for as many as there are workers that got elements.
        More than 0 needs `sharded`.
      sharded: elements are pairs of a shard's number and an iterable of its values, as
        `io.Write` makes them when `num_shards` is given.
      compression_type: see `CompressionTypes`; 'auto' goes by the suffix.
      max_records_per_shard: begin another file after so many values.
      name_by_transaction: make the transaction part of the names, as an unbounded input
        needs it: every epoch commits files of its own.
      skip_if_empty: write no file at all when there are no elements.  Otherwise there
        is one, with its header.
      transform: what errors call whatever writes into this sink.

    Files with the same names are replaced; other files, such as older shards, stay.
    """

    accepts_retractions: ClassVar[bool] = False
    # How many files a worker has open at once; None for as many as there are shards.
    max_open_files: int | None = None

    def __init__(
        self,
        file_path_prefix: AnyPath,
        file_format: FileFormat | None = None,
        *,
        file_name_suffix: str = "",
        shard_name_template: str | None = None,
        num_shards: int = 0,
        sharded: bool = False,
        compression_type: str = CompressionTypes.AUTO,
        max_records_per_shard: int | None = None,
        name_by_transaction: bool = False,
        skip_if_empty: bool = False,
        transform: str = "",
    ) -> None:
        self.transform = transform or type(self).__name__
        self.transform_is_given = bool(transform)
        self.file_path_prefix = path_string(file_path_prefix)
        self.file_name_suffix = file_name_suffix
        self.shard_name_template = DEFAULT_SHARD_NAME_TEMPLATE if shard_name_template is None else shard_name_template
        self.num_shards = num_shards or (0 if tells_shards_apart(self.shard_name_template) else 1)
        self.sharded = sharded
        self.compression_type = compression_type
        self.max_records_per_shard = max_records_per_shard
        self.name_by_transaction = name_by_transaction
        self.skip_if_empty = skip_if_empty
        self.file_format = file_format
        self._check()

    def _check(self) -> None:
        CompressionTypes.resolve(self.compression_type, self.file_name_suffix)
        if self.num_shards < 0:
            raise ValueError(f"{self.transform}: num_shards must be 0 or more, got {self.num_shards}")
        if self.num_shards > 1 and not tells_shards_apart(self.shard_name_template):
            raise ValueError(
                f"{self.transform}: {self.num_shards} shards need names of their own, "
                f"but the shard_name_template {self.shard_name_template!r} has no S"
            )
        if self.max_records_per_shard is not None:
            if self.max_records_per_shard < 1:
                raise ValueError(f"{self.transform}: max_records_per_shard must be 1 or more")
            if self.num_shards:
                raise ValueError(f"{self.transform}: num_shards and max_records_per_shard exclude each other")
        _directory, name = split_path(self.file_path_prefix)
        if not name and not self.shard_name_template:
            raise ValueError(f"{self.transform}: the path {self.file_path_prefix!r} names a directory, not a file")

    def display_data(self) -> dict[str, Any]:
        """What a drawing of the pipeline may show of it."""
        return {
            "file_pattern": f"{self.file_path_prefix}{self.shard_name_template}{self.file_name_suffix}",
            "num_shards": self.num_shards,
            "compression": self.compression_type,
        }

    @property
    def file_system(self) -> FileSystem:
        """Where the files go."""
        return filesystem_for(self.file_path_prefix)

    def staging_directory(self, transaction: str) -> str:
        """Where the files of a transaction are until it commits."""
        directory, name = split_path(self.file_path_prefix)
        return join_path(directory, f".{name}.penstock-{quote(transaction, safe='')}")

    def final_path(self, transaction: str, shard: int, shards: int) -> str:
        """The name that a shard is published under."""
        epoch = f"-{quote(transaction, safe='')}" if self.name_by_transaction else ""
        name = shard_name(self.shard_name_template, shard, shards)
        return f"{self.file_path_prefix}{epoch}{name}{self.file_name_suffix}"

    def parts_of(self, bundle: Bundle) -> Iterable[tuple[int | None, Any, Iterable[Any]]]:
        """The values of a bundle by shard and group, which have files of their own."""
        return (
            ((shard, None, values) for shard, values in bundle.values)
            if self.sharded
            else [(None, None, bundle.values)]
        )

    @contextmanager
    def open_file(self, path: str, group: Any = None) -> Iterator[RecordWriter]:
        """A writer of records into a new file, which is complete when the block is left."""
        assert self.file_format is not None, "a sink without a format overrides open_file"
        with self.create_file(path) as file:
            writer = self.file_format.open(file)
            try:
                yield writer
                writer.close()
            except BaseException:
                writer.abandon()
                raise

    def create_file(self, path: str) -> BinaryIO:
        """A new file, compressed as the names of the output announce."""
        return open_for_writing(path, CompressionTypes.resolve(self.compression_type, self.final_path("", 0, 1)))

    # Two phases

    def prepare(self, transaction: str) -> None:
        directory = self.staging_directory(transaction)
        fs = self.file_system
        with self.naming_the_output("can't be written to"):
            fs.mkdirs(directory)
            # An object store has no directories: this is what shows that it can be written to.
            fs.create(join_path(directory, "prepared")).close()
            fs.sync_directory(directory)
            fs.sync_directory(split_path(directory)[0])

    def open_writer(self, transaction: str, unit: str) -> FileSinkWriter:
        return FileSinkWriter(self, self.staging_directory(transaction), unit)

    def commit(self, transaction: str, staged: Sequence[tuple[StagedFile, ...]]) -> None:
        directory = self.staging_directory(transaction)
        fs = self.file_system
        files = [file for token in staged for file in token]
        with self.naming_the_output("can't be published"):
            if not fs.exists(directory):
                self._check_that_it_was_published(transaction, files)
                return
            plan = read_plan(fs, directory)
            if plan is None:
                plan = self.plan(transaction, [*files, *self._stage_empty_shards(directory, files)])
                write_plan(fs, directory, plan)
            carry_out(fs, directory, plan)
            fs.delete(directory)

    def abort(self, transaction: str) -> None:
        """Remove what was staged.

        A transaction whose plan is written is decided, so it is left alone: commit again.
        """
        directory = self.staging_directory(transaction)
        with self.naming_the_output("can't be cleaned up"):
            if read_plan(self.file_system, directory) is None:
                self.file_system.delete(directory)

    def plan(self, transaction: str, files: Sequence[StagedFile]) -> list[Renaming]:
        """Which staged file gets which name, in an order that depends on the files alone."""
        numbered = self._numbered(files) if self.sharded else dict(enumerate(files))
        shards = self.num_shards if self.sharded else len(numbered)
        if shards > 1 and not tells_shards_apart(self.shard_name_template):
            raise SinkError(
                f"{self.transform}: {shards} workers wrote, but {self.final_path(transaction, 0, 1)!r} is one file; "
                "write it by penstock.io.Write, or give a shard_name_template with an S"
            )
        return [
            Renaming(file.name, self.final_path(transaction, shard, shards), file.size)
            for shard, file in numbered.items()
        ]

    def _numbered(self, files: Sequence[StagedFile]) -> dict[int, StagedFile]:
        numbered: dict[int, StagedFile] = {}
        for file in sorted(files, key=lambda file: (file.shard or 0, file.name)):
            shard = file.shard or 0
            if shard in numbered:
                raise SinkError(
                    f"{self.transform}: shard {shard} of {self.file_path_prefix!r} was written by two workers; "
                    "group its elements in one window"
                )
            numbered[shard] = file
        return numbered

    def _stage_empty_shards(self, directory: str, files: Sequence[StagedFile]) -> list[StagedFile]:
        """The shards that have a name but nobody wrote."""
        if not files and self.skip_if_empty:
            return []
        written = {file.shard for file in files}
        missing = [shard for shard in range(self.num_shards) if shard not in written] if self.sharded else []
        if not files and not missing:
            missing = [0]
        staged = []
        for shard in missing:
            with self.open_file(join_path(directory, f"empty-{shard}")):
                pass
            staged.append(self.staged_file(directory, f"empty-{shard}", shard))
        return staged

    def staged_file(self, directory: str, name: str, shard: int | None, group: Any = None) -> StagedFile:
        """A finished file, made durable."""
        path = join_path(directory, name)
        self.file_system.sync(path)
        return StagedFile(name, self.file_system.size(path), shard, group)

    def _check_that_it_was_published(self, transaction: str, files: Sequence[StagedFile]) -> None:
        finals = [entry.final for entry in self.plan(transaction, files)]
        if not files and not self.skip_if_empty:
            finals = [self.final_path(transaction, 0, max(self.num_shards, 1))]
        if finals and not any(map(self.file_system.exists, finals)):
            raise SinkError(
                f"{self.transform}: {finals[0]!r} can't be published: neither it nor what was staged "
                "for it is there. Something removed the staging directory before the commit; run the pipeline again"
            )

    @contextmanager
    def naming_the_output(self, what: str) -> Iterator[None]:
        """Turns an `OSError` into a `SinkError` that names the transform, the path and what was found."""
        try:
            yield
        except SinkError:
            raise
        except OSError as error:
            found = f"{error.strerror or error}" + (f" ({error.filename!r})" if error.filename else "")
            raise SinkError(f"{self.transform}: {self.file_path_prefix!r} {what}: {found}") from error


class FileSinkWriter(SinkWriter[Any]):
    """Writes one worker's elements into files in the staging directory.

    There is one open file for each shard and group that the elements are of.
    """

    def __init__(self, sink: FileSink, directory: str, unit: str) -> None:
        self._sink = sink
        self._directory = directory
        self._unit = quote(unit, safe="")
        self._open: dict[tuple[int | None, Any], _OpenFile] = {}
        self._finished: list[StagedFile] = []
        self._names: list[str] = []

    def write(self, bundle: Bundle) -> None:
        if bundle.signs != 1 and (bundle.signs == -1 or -1 in _listed(bundle.signs)):
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
