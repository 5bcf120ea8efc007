"""StagedFileSink: files that are published together once the run has succeeded.

The two phases, for every format:

1. Each worker writes its own files (`FileSinkWriter`) into a hidden directory beside the destination,
   `.<name>.penstock-<transaction>-<sink>`, and makes them durable.  Another sink with this prefix has another one.
2. A commit writes down the final name of each file (`commit_plan`), renames the files and removes the directory.

A crash in phase 1 leaves only the hidden directory, which patterns never match. A crash in phase 2 is completed by
committing again.

`precommit` detects a name that the file system refuses, or that two files share, before the commit is decided. With
dead letters the commit moves such a file into the directory `.<name>.penstock-dead-letters`, and writes a note beside
it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Self, cast
from urllib.parse import quote

import attrs

from ....sdk.claims import Claim, Claimant
from ....sdk.coders.coder import shortened
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle
from ....sdk.errors import RejectedRecordError, SinkError, SourceError
from ....sdk.options.value_provider import ValueProvider, value_of
from ....sdk.redaction import logger_of, redacted, redacted_cause
from ....sdk.sink import Sink, SinkContext, SinkSpec
from ....sdk.transaction_series import digest_of_sink
from ...sinks.dead_letters import Rejected, tell
from ..compression import CompressionTypes, CountingFile, open_for_writing
from ..filesystem import AnyPath, FileSystem, absolute_path, filesystem_for, join_path, path_string, split_path
from ..format import FileFormat, RecordWriter
from .commit_plan import Renaming, carry_out, read_plan, write_plan
from .final_names import FinalNames
from .sharding import DEFAULT_SHARD_NAME_TEMPLATE, shard_name, tells_shards_apart, template_as_format
from .staged_file import StagedFile
from .staging_writer import FileSinkWriter

_logger = logger_of(__name__)


class StagedFileSink(Sink[Any], Claimant):
    """Files of one format, named `<prefix><shard><suffix>`.

    Args:
      file_path_prefix: the directory and the beginning of the names.
      file_format: the encoding of values as bytes.
      file_name_suffix: the end of the names, such as '.txt'.
      shard_name_template: see `shard_name`; '' is for a single file.
      num_shards: the number of files; 0 for a file for each worker that received elements.
        More than 0 needs `sharded`.
      sharded: elements are pairs of a shard's number and an iterable of its values, as
        `io.Write` makes them when `num_shards` is given.
      compression_type: see `CompressionTypes`; 'auto' goes by the suffix.
      max_records_per_shard: the largest number of values in a file; no effect beside `num_shards`, as in Beam.
      max_bytes_per_shard: the number of uncompressed bytes at which another file is begun; no effect beside
        `num_shards`.
      triggering_frequency: for an unbounded input, the seconds of event time whose elements are in the same files; see
        `WindowedSink`.
      name_by_transaction: makes the transaction part of the names, for an unbounded input: every epoch commits its own
        files, whose names begin with the epoch's number.
      skip_if_empty: writes no file if there are no elements.  Otherwise one file with a header is written.
      transform: the name of the writing transform in errors of the arguments.

    Files with the same names are replaced; other files, such as older shards, stay.
    """

    spec = SinkSpec(has_dead_letters=True)
    # The run in the names of files that are published one by one; "" if the transaction tells it.
    run = ""
    # The number of files that a worker has open at once; None for the number of shards.
    max_open_files: int | None = None
    # The last created file, if its bytes are counted.
    counted: CountingFile | None = None

    def __init__(
        self,
        file_path_prefix: AnyPath,
        file_format: FileFormat | None = None,
        *,
        file_name_suffix: str | ValueProvider = "",
        shard_name_template: str | None = None,
        num_shards: int = 0,
        sharded: bool = False,
        compression_type: str = CompressionTypes.AUTO,
        max_records_per_shard: int | None = None,
        max_bytes_per_shard: int | None = None,
        triggering_frequency: float | None = None,
        name_by_transaction: bool = False,
        skip_if_empty: bool = False,
        transform: str = "",
    ) -> None:
        transform = transform or type(self).__name__
        self.given_prefix = path_string(file_path_prefix)
        # Workers on other machines may have other working directories.
        self.file_path_prefix = absolute_path(file_path_prefix)
        self.file_name_suffix: str = value_of(file_name_suffix)
        if not isinstance(self.file_name_suffix, str):
            raise TypeError(f"{transform}: file_name_suffix must be a str or a ValueProvider, got {file_name_suffix!r}")
        self.shard_name_template = DEFAULT_SHARD_NAME_TEMPLATE if shard_name_template is None else shard_name_template
        self.num_shards = num_shards or (0 if tells_shards_apart(self.shard_name_template) else 1)
        self.sharded = sharded
        self.compression_type = compression_type
        self.max_records_per_shard = max_records_per_shard
        self.max_bytes_per_shard = max_bytes_per_shard
        self.triggering_frequency = triggering_frequency
        self.name_by_transaction = name_by_transaction
        self.skip_if_empty = skip_if_empty
        self.file_format = file_format
        takes_columns = not sharded and file_format is not None and file_format.writes_columns
        self.spec = attrs.evolve(self.spec, takes_columns=takes_columns)
        self._check(transform)

    def _check(self, transform: str) -> None:
        CompressionTypes.resolve(self.compression_type, self.file_name_suffix)
        for part in (self.file_path_prefix, self.shard_name_template, self.file_name_suffix):
            if "\0" in part:
                raise ValueError(f"{transform}: no file's name can have a NUL in it, as {redacted(part)!r} has")
        if self.num_shards < 0:
            raise ValueError(f"{transform}: num_shards must be 0 or more, got {self.num_shards}")
        if self.num_shards > 1 and not tells_shards_apart(self.shard_name_template):
            raise ValueError(
                f"{transform}: {self.num_shards} shards need names of their own, "
                f"but the shard_name_template {self.shard_name_template!r} has no S"
            )
        for name in ("max_records_per_shard", "max_bytes_per_shard"):
            most = getattr(self, name)
            if most is not None and most < 1:
                raise ValueError(f"{transform}: {name} must be 1 or more, got {most}")
            if most is not None and self.num_shards:
                _logger.warning("%s: %s has no effect beside num_shards", transform, name)
                setattr(self, name, None)
        if self.triggering_frequency is not None and self.triggering_frequency < 0:
            raise ValueError(
                f"{transform}: triggering_frequency must be 0 seconds or more, got {self.triggering_frequency}"
            )
        _directory, name = split_path(self.file_path_prefix)
        if not name and not self.shard_name_template:
            raise ValueError(f"{transform}: the path {redacted(self.file_path_prefix)!r} names a directory, not a file")

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        names = template_as_format(self.shard_name_template)
        return {
            "file_pattern": redacted(f"{self.given_prefix}{names}{self.file_name_suffix}"),
            **({"shards": self.num_shards} if self.num_shards else {}),
            "compression": self.compression_type,
            **({} if self.file_format is None else self.file_format.display_data()),
        }

    def target(self) -> str:
        return redacted(f"{self.file_path_prefix}{self.shard_name_template}{self.file_name_suffix}")

    def claims(self) -> Sequence[Claim]:
        first = self.first_path(1)
        if first is None:
            return ()
        what = f"it writes the files {redacted(self.first_path(self.num_shards or 1) or first)!r}, and so on"
        advice = "one of them would replace the other's; give one of them another prefix, suffix or shard_name_template"
        return [FinalNames(what, advice, first=self._first_path, shards=self.num_shards)]

    def _first_path(self, shards: int) -> str:
        return self.first_path(shards) or ""

    def first_path(self, shards: int) -> str | None:
        """Return the final path of the first of so many files, without the transaction's name; None if it isn't known
        before the run."""
        return f"{self.file_path_prefix}{shard_name(self.shard_name_template, 0, shards)}{self.file_name_suffix}"

    @property
    def file_system(self) -> FileSystem:
        """Return the file system of the output."""
        return filesystem_for(self.file_path_prefix)

    def staging_directory(self, context: SinkContext) -> str:
        """Return the directory of a transaction's files until its commit.

        It is this sink's alone, unless an earlier version has begun the transaction: then all sinks with this prefix
        have the same one.
        """
        directory, name = split_path(self.file_path_prefix)
        of_all = join_path(directory, f".{name}.penstock-{quote(context.transaction, safe='')}")
        with self.naming_the_output(context, "can't be reached"):
            is_of_all = self.file_system.exists(of_all)
        return of_all if is_of_all else f"{of_all}-{_digest(context)}"

    def final_path(self, transaction: str, shard: int, shards: int) -> str:
        """Return the path that a shard of a transaction is published under."""
        epoch = f"-{quote(transaction, safe='')}" if self.name_by_transaction else ""
        name = shard_name(self.shard_name_template, shard, shards)
        return f"{self.file_path_prefix}{epoch}{name}{self.file_name_suffix}"

    def parts_of(self, bundle: Bundle) -> Iterable[tuple[int | None, Any, Any]]:
        """Yield the values of a bundle, or columns, by shard and group.  Each of these has its own file."""
        if self.sharded:
            return ((shard, None, values) for shard, values in bundle.values)
        return [(None, None, bundle if isinstance(bundle, ColumnBundle) else bundle.values)]

    def check_group(self, context: SinkContext, group: Any) -> None:
        """Raise `SinkError`, before files are staged, if the files of a group can't be published."""

    @contextmanager
    def open_file(self, path: str, group: Any = None) -> Iterator[RecordWriter]:
        """Open a writer of records into a new file, which is complete once the block is left."""
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
        """Create a file, compressed according to the names of the output."""
        file = open_for_writing(path, CompressionTypes.resolve(self.compression_type, self.final_path("", 0, 1)))
        if self.max_bytes_per_shard is not None:
            self.counted = CountingFile(file)
            return cast(BinaryIO, self.counted)
        return file

    # Two phases

    def prepare(self, context: SinkContext) -> None:
        directory = self.staging_directory(context)
        final = self.naming_for(context).final_path(context.transaction, 0, 1)
        fs = self.file_system
        with self.naming_the_output(context, "can't be written to"):
            for name in (split_path(directory)[1], split_path(final)[1]):
                fs.check_names(split_path(directory)[0], name)
            fs.mkdirs(directory)
            # An object store has no directories, so creating a file checks that it can be written to.
            fs.create(join_path(directory, "prepared")).close()
            fs.sync_directory(directory)
            fs.sync_directory(split_path(directory)[0])

    def naming_for(self, context: SinkContext) -> Self:
        """Return the sink that names the files of a transaction, and opens them.

        Of many transactions, each has names of its own, and an empty one has no file.
        """
        if not context.many_transactions:
            return self
        sink = copy.copy(self)
        sink.name_by_transaction = sink.skip_if_empty = True
        return sink

    def open_writer(self, context: SinkContext) -> FileSinkWriter:
        return FileSinkWriter(self.naming_for(context), context)

    def precommit(self, staged: Mapping[SinkContext, Sequence[tuple[StagedFile, ...]]]) -> None:
        """Check the names of all files and their directories."""
        for context, tokens in staged.items():
            if context.dead_letters:
                continue
            directory = self.staging_directory(context)
            with self.naming_the_output(context, "can't be published"):
                if self.file_system.exists(directory) and read_plan(self.file_system, directory) is None:
                    self.naming_for(context)._checked_plan(context, [file for token in tokens for file in token])

    def names(self, context: SinkContext, staged: Sequence[tuple[StagedFile, ...]]) -> Iterable[str]:
        sink = self.naming_for(context)
        kept, _ = sink._what_fits(context, [file for token in staged for file in token])
        return [entry.final for entry in sink.plan(context, kept)]

    def commit(self, context: SinkContext, staged: Sequence[tuple[StagedFile, ...]]) -> None:
        self.naming_for(context).publish(context, staged)

    def publish(self, context: SinkContext, staged: Sequence[tuple[StagedFile, ...]]) -> list[Any]:
        """Publish the staged elements, and return what tells of each file: see `told`."""
        directory = self.staging_directory(context)
        fs = self.file_system
        files = [file for token in staged for file in token]
        with self.naming_the_output(context, "can't be published"):
            if not fs.exists(directory):
                return self._told_of(self._check_that_it_was_published(context, files), files)
            plan = read_plan(fs, directory)
            if plan is not None:
                self._check_plan(context, directory, plan)
            else:
                files += self._stage_empty_shards(directory, files)
                rejected: list[tuple[StagedFile, Rejected]] = []
                if context.dead_letters:
                    plan, rejected = self._plan_of_what_fits(context, directory, files)
                else:
                    plan = self._checked_plan(context, files)
                write_plan(fs, directory, plan)
                # Once: a later commit finds the plan.
                self._tell(context, rejected)
            carry_out(fs, directory, plan)
            fs.delete(directory)
            return self._told_of(plan, files)

    def _told_of(self, plan: Sequence[Renaming], files: Sequence[StagedFile]) -> list[Any]:
        """Return what tells of each file; the dead letters are no output."""
        away = join_path(self.dead_letters, "")
        published = [entry for entry in plan if not entry.final.startswith(away)]
        names = {entry.staged for entry in published}
        return self.told(published, [file for file in files if file.name in names])

    def told(self, plan: Sequence[Renaming], files: Sequence[StagedFile]) -> list[Any]:
        """Return what tells of each published file, for the transforms that are applied to a write: its path."""
        return [entry.final for entry in plan]

    def abort(self, context: SinkContext) -> None:
        """Remove the staged files.

        A transaction whose plan is written is decided, so its files are kept for another commit.
        """
        directory = self.staging_directory(context)
        with self.naming_the_output(context, "can't be cleaned up"):
            if read_plan(self.file_system, directory) is None:
                self.file_system.delete(directory)

    def _checked_plan(self, context: SinkContext, files: Sequence[StagedFile]) -> list[Renaming]:
        """Return the plan.  Raises `RejectedRecordError` if it can't be carried out."""
        try:
            plan = self.plan(context, files)
            for entry in plan:
                self._check_name(context, entry.final)
        except SinkError as error:
            rejection = RejectedRecordError(str(error))
            rejection.record = error.record if isinstance(error, RejectedRecordError) else ""
            rejection.transform = context.label
            raise rejection from error.__cause__
        return plan

    def _check_name(self, context: SinkContext, path: str) -> None:
        """Raise `RejectedRecordError` if no file can have this path."""
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
        rejection = RejectedRecordError(f"{context.label}: no file can be published as {shown}: {why}")
        rejection.record = shown
        raise rejection

    def _plan_of_what_fits(
        self, context: SinkContext, directory: str, files: Sequence[StagedFile]
    ) -> tuple[list[Renaming], list[tuple[StagedFile, Rejected]]]:
        """Return a plan that moves files whose names are refused to the dead letters, and those files."""
        kept, rejected = self._what_fits(context, files)
        plan = self.plan(context, kept)
        for file, each in rejected:
            final = self._dead_letter(context, file)
            plan.append(Renaming(file.name, final, file.size))
            note = {"transaction": context.transaction, "transform": context.label}
            note |= {"file": each.record, "reason": each.why}
            with self.file_system.create(join_path(directory, f"{file.name}.json")) as written:
                written.write(json.dumps(note, ensure_ascii=False).encode(errors="backslashreplace"))
            staged = self.staged_file(directory, f"{file.name}.json", None)
            plan.append(Renaming(staged.name, f"{final}.json", staged.size))
        return plan, rejected

    def _tell(self, context: SinkContext, rejected: Sequence[tuple[StagedFile, Rejected]]) -> None:
        # A file that an earlier version staged has an unknown number of elements.
        elements = sum(1 if file.elements is None else file.elements for file, _ in rejected)
        tell([each for _, each in rejected], context.label, f"directory {self.dead_letters!r}", elements)

    @property
    def dead_letters(self) -> str:
        """Return the directory of files whose names are refused."""
        directory, name = split_path(self.file_path_prefix)
        return join_path(directory, f".{name}.penstock-dead-letters")

    def _dead_letter(self, context: SinkContext, file: StagedFile) -> str:
        name = f"{quote(context.transaction, safe='')}-{_digest(context)}-{file.name}"
        return join_path(self.dead_letters, name)

    def _what_fits(
        self, context: SinkContext, files: Sequence[StagedFile]
    ) -> tuple[list[StagedFile], list[tuple[StagedFile, Rejected]]]:
        """Return the files that can be published together, and the others."""
        try:
            self._checked_plan(context, files)
            return list(files), []
        except Exception:
            kept: list[StagedFile] = []
            rejected = []
        for file in files:
            try:
                self._checked_plan(context, [*kept, file])
                kept.append(file)
            except Exception as error:
                rejected.append((file, Rejected(str(file.group or file.name), 1, str(error))))
        return kept, rejected

    def plan(self, context: SinkContext, files: Sequence[StagedFile]) -> list[Renaming]:
        """Return the final name of each staged file, in an order that depends on the files alone."""
        numbered = self._numbered(context, files) if self.sharded else dict(enumerate(files))
        shards = self.num_shards if self.sharded else len(numbered)
        if shards > 1 and not tells_shards_apart(self.shard_name_template):
            final = self.final_path(context.transaction, 0, 1)
            raise SinkError(
                f"{context.label}: {shards} workers wrote, but {final!r} is one file; "
                "write it by penstock.io.Write, or give a shard_name_template with an S"
            )
        return [
            Renaming(file.name, self.final_path(context.transaction, shard, shards), file.size)
            for shard, file in numbered.items()
        ]

    def may_publish(self, final: str) -> bool:
        """Return whether a path is a name of this sink's files."""
        return final.startswith(self.file_path_prefix) and ".." not in final[len(self.file_path_prefix) :].split("/")

    def _check_plan(self, context: SinkContext, directory: str, plan: Sequence[Renaming]) -> None:
        """Raise `SinkError` for a plan with files that this sink doesn't stage or doesn't publish.

        Another user may have created it, if the output directory is writable for others.
        """
        for entry in plan:
            if "/" in entry.staged or entry.staged in ("", ".", "..") or not self.may_publish(entry.final):
                raise SinkError(
                    f"{context.label}: the plan in {directory!r} isn't of this sink: it renames {entry.staged!r} to "
                    f"{entry.final!r}. Remove the directory if another user has made it"
                )

    def _numbered(self, context: SinkContext, files: Sequence[StagedFile]) -> dict[int, StagedFile]:
        numbered: dict[int, StagedFile] = {}
        for file in sorted(files, key=lambda file: (file.shard or 0, file.name)):
            shard = file.shard or 0
            if shard in numbered:
                raise SinkError(
                    f"{context.label}: shard {shard} of {self.file_path_prefix!r} was written by two workers; "
                    "group its elements in one window"
                )
            numbered[shard] = file
        return numbered

    def _stage_empty_shards(self, directory: str, files: Sequence[StagedFile]) -> list[StagedFile]:
        """Stage the shards without elements as empty files."""
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

    def staged_file(
        self, directory: str, name: str, shard: int | None, group: Any = None, elements: int = 0
    ) -> StagedFile:
        """Sync a complete file and return it."""
        path = join_path(directory, name)
        self.file_system.sync(path)
        return StagedFile(name, self.file_system.size(path), shard, group, elements)

    def _check_that_it_was_published(self, context: SinkContext, files: Sequence[StagedFile]) -> list[Renaming]:
        # An earlier run may have moved some of them to the dead letters.
        kept, rejected = self._what_fits(context, files)
        plan = self.plan(context, kept)
        finals = [entry.final for entry in plan]
        finals += [self._dead_letter(context, file) for file, _ in rejected]
        # Named as an earlier version has named them.
        of_all = quote(context.transaction, safe="")
        finals += [join_path(self.dead_letters, f"{of_all}-{file.name}") for file, _ in rejected]
        if not files and not self.skip_if_empty:
            finals = [self.final_path(context.transaction, 0, max(self.num_shards, 1))]
        if finals and not any(map(self.file_system.exists, finals)):
            raise SinkError(
                f"{context.label}: {finals[0]!r} can't be published: neither it nor its staged file exists. "
                "Another program removed the staging directory before the commit, or the file just behind it; run the "
                "pipeline again"
            )
        return plan

    @contextmanager
    def naming_the_output(self, context: SinkContext, what: str) -> Iterator[None]:
        """Turn an `OSError` into a `SinkError` that names the transform, the path and what was found."""
        try:
            yield
        except SinkError:
            raise
        except SourceError as error:
            # Of a protocol that is unknown here.
            raise SinkError(f"{context.label}: {error}") from redacted_cause(error.__cause__)
        except OSError as error:
            found = f"{error.strerror or error}" + (f" ({error.filename!r})" if error.filename else "")
            raise SinkError(f"{context.label}: {self.file_path_prefix!r} {what}: {found}") from redacted_cause(error)


def _digest(context: SinkContext) -> str:
    """Tells a sink's files from those of another sink with its prefix, until they are published."""
    return digest_of_sink(context.label)[:8]
