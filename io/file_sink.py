"""FileSink: files that appear all at once, when the whole run has succeeded.

The two phases, for every format:

1. Each worker writes into files of its own in a hidden directory beside the destination,
   `.<name>.penstock-<transaction>`, and makes them durable.
2. Committing writes down which file gets which name (`commit_plan`), renames them, and
   removes the directory.

A crash in phase 1 leaves nothing but the hidden directory, which patterns never match.
A crash in phase 2 is completed by committing again.

A name that no file can have, or that two files would have, is found by `precommit`, before the commit is decided.  With
dead letters the commit moves such a file into the directory `.<name>.penstock-dead-letters`, with a note beside it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, ClassVar
from urllib.parse import quote

from ..sdk.bundle import Bundle
from ..sdk.coders.coder import shortened
from ..sdk.errors import RejectedRecordError, SinkError
from ..sdk.redaction import redacted, redacted_cause
from ..sdk.sink import Sink
from .commit_plan import Renaming, carry_out, read_plan, write_plan
from .compression import CompressionTypes, open_for_writing
from .dead_letters import Rejected, tell
from .file_format import FileFormat, RecordWriter
from .file_sink_writer import FileSinkWriter, StagedFile
from .filesystem import AnyPath, FileSystem, absolute_path, filesystem_for, join_path, split_path
from .shard_names import DEFAULT_SHARD_NAME_TEMPLATE, shard_name, tells_shards_apart


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
        needs it: every epoch commits files of its own, whose names begin with its number.
      skip_if_empty: write no file at all when there are no elements.  Otherwise there
        is one, with its header.
      transform: what errors call whatever writes into this sink.

    Files with the same names are replaced; other files, such as older shards, stay.
    """

    accepts_retractions: ClassVar[bool] = False
    # Whether a commit moves aside files that can't have their names; else it fails.
    has_dead_letters = False
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
        # Workers on other machines have working directories of their own.
        self.file_path_prefix = absolute_path(file_path_prefix)
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
        for part in (self.file_path_prefix, self.shard_name_template, self.file_name_suffix):
            if "\0" in part:
                raise ValueError(f"{self.transform}: no file's name can have a NUL in it, as {redacted(part)!r} has")
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
            raise ValueError(
                f"{self.transform}: the path {redacted(self.file_path_prefix)!r} names a directory, not a file"
            )

    def display_data(self) -> dict[str, Any]:
        """What a drawing of the pipeline may show of it."""
        return {
            "file_pattern": redacted(f"{self.file_path_prefix}{self.shard_name_template}{self.file_name_suffix}"),
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

    def check_group(self, transaction: str, group: Any) -> None:
        """Raise `SinkError` if the files of a group can't be published, before one is staged."""

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
            for name in (split_path(directory)[1], split_path(self.final_path(transaction, 0, 1))[1]):
                fs.check_names(split_path(directory)[0], name)
            fs.mkdirs(directory)
            # An object store has no directories: this is what shows that it can be written to.
            fs.create(join_path(directory, "prepared")).close()
            fs.sync_directory(directory)
            fs.sync_directory(split_path(directory)[0])

    def for_many_transactions(self) -> FileSink:
        sink = copy.copy(self)
        # Nor is there a file for each transaction in which nothing came.
        sink.name_by_transaction = sink.skip_if_empty = True
        return sink

    def with_dead_letters(self) -> FileSink:
        sink = copy.copy(self)
        sink.has_dead_letters = True
        return sink

    def open_writer(self, transaction: str, unit: str) -> FileSinkWriter:
        return FileSinkWriter(self, transaction, unit)

    def precommit(self, transactions: Mapping[str, Sequence[tuple[StagedFile, ...]]]) -> None:
        """Find the names of all files, and the directories that they are in."""
        if self.has_dead_letters:
            return
        for transaction, staged in transactions.items():
            directory = self.staging_directory(transaction)
            with self.naming_the_output("can't be published"):
                if self.file_system.exists(directory) and read_plan(self.file_system, directory) is None:
                    self._checked_plan(transaction, [file for token in staged for file in token])

    def commit(self, transaction: str, staged: Sequence[tuple[StagedFile, ...]]) -> None:
        directory = self.staging_directory(transaction)
        fs = self.file_system
        files = [file for token in staged for file in token]
        with self.naming_the_output("can't be published"):
            if not fs.exists(directory):
                self._check_that_it_was_published(transaction, files)
                return
            plan = read_plan(fs, directory)
            if plan is not None:
                self._check_plan(directory, plan)
            else:
                files += self._stage_empty_shards(directory, files)
                if self.has_dead_letters:
                    plan = self._plan_of_what_fits(transaction, directory, files)
                else:
                    plan = self._checked_plan(transaction, files)
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

    def _checked_plan(self, transaction: str, files: Sequence[StagedFile]) -> list[Renaming]:
        """The plan; raises `RejectedRecordError` where it can't be carried out."""
        try:
            plan = self.plan(transaction, files)
            for entry in plan:
                self._check_name(entry.final)
        except SinkError as error:
            rejection = RejectedRecordError(str(error))
            rejection.record = error.record if isinstance(error, RejectedRecordError) else ""
            rejection.transform = self.transform
            raise rejection from error.__cause__
        return plan

    def _check_name(self, path: str) -> None:
        """Raise `RejectedRecordError` if no file can be there."""
        fs = self.file_system
        try:
            directory, name = split_path(path)
            fs.mkdirs(directory)
            fs.check_names(directory, name)
            is_taken = fs.is_directory(path)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
        else:
            if not is_taken:
                return
            why = "there is a directory of that name"
        shown = shortened(path, 400)
        rejection = RejectedRecordError(f"{self.transform}: no file can be published as {shown}: {why}")
        rejection.record = shown
        raise rejection

    def _plan_of_what_fits(self, transaction: str, directory: str, files: Sequence[StagedFile]) -> list[Renaming]:
        """A plan in which files that can't have their names are moved to where dead letters are."""
        kept, rejected = self._what_fits(transaction, files)
        plan = self.plan(transaction, kept)
        away = self.dead_letters
        for file, each in rejected:
            final = self._dead_letter(transaction, file)
            plan.append(Renaming(file.name, final, file.size))
            note = {"transaction": transaction, "transform": self.transform, "file": each.record, "reason": each.why}
            with self.file_system.create(join_path(directory, f"{file.name}.json")) as written:
                written.write(json.dumps(note, ensure_ascii=False).encode(errors="backslashreplace"))
            staged = self.staged_file(directory, f"{file.name}.json", None)
            plan.append(Renaming(staged.name, f"{final}.json", staged.size))
        tell([each for _, each in rejected], self.transform, f"directory {away!r}")
        return plan

    @property
    def dead_letters(self) -> str:
        """The directory of files that can't have their names."""
        directory, name = split_path(self.file_path_prefix)
        return join_path(directory, f".{name}.penstock-dead-letters")

    def _dead_letter(self, transaction: str, file: StagedFile) -> str:
        return join_path(self.dead_letters, f"{quote(transaction, safe='')}-{file.name}")

    def _what_fits(
        self, transaction: str, files: Sequence[StagedFile]
    ) -> tuple[list[StagedFile], list[tuple[StagedFile, Rejected]]]:
        """The files that can have names together, and the others."""
        try:
            self._checked_plan(transaction, files)
            return list(files), []
        except Exception:
            kept: list[StagedFile] = []
            rejected = []
        for file in files:
            try:
                self._checked_plan(transaction, [*kept, file])
                kept.append(file)
            except Exception as error:
                rejected.append((file, Rejected(str(file.group or file.name), 1, str(error))))
        return kept, rejected

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

    def may_publish(self, final: str) -> bool:
        """Return whether this sink gives such names."""
        return final.startswith(self.file_path_prefix) and ".." not in final[len(self.file_path_prefix) :].split("/")

    def _check_plan(self, directory: str, plan: Sequence[Renaming]) -> None:
        """Raise `SinkError` for a plan that names files which this sink doesn't stage, or doesn't publish.

        Another user may have put it there, where others can write to the output directory.
        """
        for entry in plan:
            if "/" in entry.staged or entry.staged in ("", ".", "..") or not self.may_publish(entry.final):
                raise SinkError(
                    f"{self.transform}: the plan in {directory!r} isn't of this sink: it renames {entry.staged!r} to "
                    f"{entry.final!r}. Remove the directory if another user has made it"
                )

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
        # An earlier start may have moved some of them aside.
        kept, rejected = self._what_fits(transaction, files)
        finals = [entry.final for entry in self.plan(transaction, kept)]
        finals += [self._dead_letter(transaction, file) for file, _ in rejected]
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
            raise SinkError(f"{self.transform}: {self.file_path_prefix!r} {what}: {found}") from redacted_cause(error)
