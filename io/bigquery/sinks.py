"""The sinks of a write, each of pairs of a table and a row: a message, or a line of JSON.

1. Workers append rows to PENDING streams, or write files for load jobs.  No reader sees them.
2. A commit commits the streams of a table at once, or runs one load job for each table.  A stream can be committed only
   once, and so can the id of a job be used, which is made of the transaction's name.

Streams can't replace the rows of a table.  Those of a table that is replaced are streams of a staging table beside it:
the commit commits them there, then runs a job with a transaction of BigQuery that empties the table and copies the rows
of the staging table, and removes that one.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import attrs

from ...sdk.claims import Claim, Claimant
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import PenstockError, SinkError
from ...sdk.redaction import logger_of, redacted, redacted_cause
from ...sdk.sink import SinkContext, SinkSpec, SinkWriter
from ...sdk.user_code.error_text import text_or_class
from ..connections.waiting import patiently, paused
from ..files.filesystem import filesystem_for, join_path
from ..sinks.opened_sink import OpenedSink
from ..sinks.record_blocks import BlockWriter, records_of
from .client import LATER, TableName, advice_of_reason, exceptions, package
from .schemas import as_json
from .streams import RowStream
from .tables import APPEND, AUTODETECT, EMPTY, TRUNCATE, Tables, Target

_logger = logger_of(__name__)

# The size of a file, before its lines are compressed in memory, in bytes.
_FILE_BYTES = 256 << 20

_ADVICE = (
    "use use_cdc_writes=True and primary_key=[...], the columns that identify a row, for rows that are replaced and "
    "deleted"
)


class TableSink(OpenedSink[Tables], Claimant):
    """Base class of the sinks of tables."""

    spec = SinkSpec(retractions_advice=_ADVICE)
    creates = True

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.written = target

    def target(self) -> str | None:
        return str(self.written.table) if self.written.table else "tables of BigQuery"

    def open_for(self, label: str) -> Tables:
        return Tables(label, self.written, self.creates)

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        return {"table": self.target()}

    def claims(self) -> Sequence[Claim]:
        written = self.written
        if written.table is None:
            return ()
        what = f"it writes into BigQuery's {written.table} with {written.disposition}"
        advice = (
            f"{TRUNCATE} replaces the rows of others, and {EMPTY} refuses a table that has some; join the rows by "
            "Flatten, or write into another table"
        )
        return [Claim(what, advice, ("bigquery", written.table), written.disposition == APPEND)]

    def prepare(self, context: SinkContext) -> None:
        prepared(context, self.opened(context))

    def close(self) -> None:
        """Disconnect."""
        for tables in self._opened.values():
            tables.close()

    def to_commit(self, tables: Tables, tokens: Iterable[Any]) -> dict[TableName, list[Any]]:
        """Return the parts of tokens by table; none of the sink's own table, if that is truncated without rows."""
        found: dict[TableName, list[Any]] = {}
        if self.written.disposition == TRUNCATE and self.written.table is not None:
            found[tables.named(self.written.table)] = []
        for token in tokens:
            for destination, *parts in token:
                found.setdefault(tables.at(destination), []).append(parts)
        return found


def prepared(context: SinkContext, tables: Tables) -> None:
    """Raise `SinkError` if a transaction can't write to the transform's table."""
    target, label = tables.target, context.label
    if context.many_transactions and target.disposition in (TRUNCATE, EMPTY):
        raise SinkError(f"{label}: {target.disposition} is of one commit, and this run makes many; use WRITE_APPEND")
    if target.table is None:
        return
    table = tables.named(target.table)
    columns = tables.columns(table)
    tables.check_rights(table)
    missing = [name for name in target.key if name not in {each.name for each in columns or ()}]
    if missing:
        raise SinkError(f"{label}: table {table} has no column {missing[0]!r}, which primary_key has")
    if target.disposition == EMPTY and not tables.is_empty(table):
        raise SinkError(f"{label}: table {table} isn't empty, and the write disposition is {EMPTY}")


# Streams


class StreamSink(TableSink):
    """Rows through PENDING streams of the Storage Write API."""

    def prepare(self, context: SinkContext) -> None:
        super().prepare(context)
        if self._replaces and self.written.table is not None:
            # So that missing rights are found before the run.
            tables = self.opened(context)
            table = tables.named(self.written.table)
            _make_staging(tables, context, table)
            tables.check_jobs(table)

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _StreamWriter(self.opened(context), context if self._replaces else None)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        tables = self.opened(context)
        for table, parts in self.to_commit(tables, staged).items():
            streams = [name for name, _ in parts]
            what = f"transaction {context.transaction!r} can't be committed"
            if self._replaces:
                begin = partial(_begin_replacement, tables, table, _staging(context, table), streams)
                run_once(tables, table, job_id(context, table), what, begin)
                _remove_staging(tables, context, table)
            elif streams:
                tables.reached(table, what, partial(_commit, tables, table, streams))

    def abort(self, context: SinkContext) -> None:
        """Remove the staging table; streams that aren't committed vanish by themselves."""
        if self._replaces and self.written.table is not None:
            tables = self.opened(context)
            _remove_staging(tables, context, tables.named(self.written.table))

    @property
    def _replaces(self) -> bool:
        return self.written.disposition == TRUNCATE


def _commit(tables: Tables, table: TableName, streams: Sequence[str]) -> None:
    """Commit streams of a table at once, unless that was done before."""
    request = {"parent": table.path, "write_streams": streams}
    answer = tables.write_client.batch_commit_write_streams(request=request, retry=None, timeout=60.0)
    errors = list(answer.stream_errors)
    others = [error for error in errors if error.code.name != "STREAM_ALREADY_COMMITTED"]
    if not errors or (not others and len(errors) == len(streams)):
        return
    other = (others or errors)[0]
    advice = ""
    if other.code.name == "STREAM_NOT_FOUND":
        advice = "; BigQuery removes streams that aren't committed within days: start from an earlier savepoint"
    raise SinkError(
        f"{tables.label}: BigQuery's {table}: stream {other.entity} can't be committed: {other.code.name}: "
        f"{other.error_message}{advice}"
    )


class _StreamWriter(SinkWriter[Any]):
    """Appends the rows of one worker, with one stream for each table.

    Args:
      replacing: the context of a transaction that replaces the rows of tables: the streams are those of staging tables.
    """

    def __init__(self, tables: Tables, replacing: SinkContext | None) -> None:
        self._tables = tables
        self._replacing = replacing
        self._streams: dict[str, RowStream] = {}

    def write(self, bundle: Bundle) -> None:
        streams = self._streams
        for destination, row in bundle.values:
            stream = streams.get(destination)
            if stream is None:
                stream = streams[destination] = self._opened(self._tables.at(destination))
            stream.add(row)

    def _opened(self, table: TableName) -> RowStream:
        into = table if self._replacing is None else _make_staging(self._tables, self._replacing, table)
        return RowStream(self._tables, table, self._tables.columns(table) or (), into=into)

    def stage(self) -> Any:
        for stream in self._streams.values():
            stream.finish()
        return [(destination, stream.name, stream.rows) for destination, stream in self._streams.items()]

    def discard(self) -> None:
        for stream in self._streams.values():
            stream.close()


# Load jobs


class LoadSink(TableSink):
    """Rows through load jobs.

    Args:
      directory: of files, in Google Cloud Storage; None if the rows are sent with the jobs.
      project: which pays for the jobs; None for that of the credentials.
    """

    creates = False

    def __init__(self, target: Target, directory: str | None, project: str | None = None) -> None:
        super().__init__(target)
        self.directory = directory
        self.project = project

    def prepare(self, context: SinkContext) -> None:
        super().prepare(context)
        # So that missing rights are found before the run.
        tables = self.opened(context)
        if self.written.table is not None:
            tables.check_jobs(tables.named(self.written.table), self.project)
        directory = self.directory_of(context)
        if directory is not None:
            path = join_path(directory, "prepared")
            self.reached(context, directory, lambda: filesystem_for(path).create(path).close())

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _LoadWriter(self, context)

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.load(context, staged)

    def load(self, context: SinkContext, staged: Sequence[Any]) -> list[tuple[TableName, str]]:
        """Run the jobs of a transaction, unless they have succeeded before, and return their ids by table."""
        tables, jobs = self.opened(context), []
        for table, parts in self.to_commit(tables, staged).items():
            paths = [path for files, _ in parts for path in files]
            blocks = [block for _, found in parts for block in found]
            what = f"transaction {context.transaction!r} can't be loaded"
            begin = partial(self._load, tables, table, paths, blocks)
            jobs.append((table, run_once(tables, table, job_id(context, table), what, begin, self.project)))
        self.abort(context)
        return jobs

    def abort(self, context: SinkContext) -> None:
        """Remove the files of a transaction."""
        directory = self.directory_of(context)
        if directory is not None:
            self.reached(context, directory, lambda: filesystem_for(directory).delete(directory))

    def directory_of(self, context: SinkContext) -> str | None:
        """Return the directory of a transaction's files."""
        if self.directory is None:
            return None
        return join_path(self.directory, f"penstock-loads-{_digest(context.label, context.transaction)}")

    def reached(self, context: SinkContext, directory: str, call: Any) -> Any:
        """Return the result of a call; wait for a store that doesn't answer.  Other errors become `SinkError`s."""
        try:
            return patiently(context.label, directory, call)
        except PenstockError:
            raise
        except Exception as error:
            said = redacted(text_or_class(error))
            raise SinkError(f"{context.label}: {directory} can't be written to: {said}") from redacted_cause(error)

    def _load(self, tables: Tables, table: TableName, paths: Sequence[str], blocks: Sequence[bytes], id: str) -> Any:
        """Begin a load job, and return it."""
        bigquery = package(tables.label)
        config = bigquery.LoadJobConfig.from_api_repr({"load": self._settings(tables, table)})
        given = {"job_id": id, "project": self.project, "job_config": config, "timeout": 60.0}
        if paths:
            return tables.client.load_table_from_uri(paths, _reference(bigquery, table), retry=None, **given)
        with tempfile.TemporaryFile() as file:
            for row in records_of(blocks):
                file.write(row)
                file.write(b"\n")
            size = file.tell()
            file.seek(0)
            return tables.client.load_table_from_file(
                file, _reference(bigquery, table), size=size, num_retries=0, **given
            )

    def _settings(self, tables: Tables, table: TableName) -> dict[str, Any]:
        """Return the configuration of load jobs of a table, as the API has it."""
        written = self.written
        found: dict[str, Any] = {
            "sourceFormat": "NEWLINE_DELIMITED_JSON",
            "writeDisposition": written.disposition,
            "createDisposition": "CREATE_IF_NEEDED" if written.create else "CREATE_NEVER",
            **written.parameters_of(table),
        }
        columns = tables.columns(table)
        if columns is not None:
            found["schema"] = as_json(columns)
        elif written.schema == AUTODETECT or callable(written.schema):
            found["autodetect"] = True
        if written.ignores_unknown:
            found["ignoreUnknownValues"] = True
        if written.kms_key:
            found["destinationEncryptionConfiguration"] = {"kmsKeyName": written.kms_key}
        return found


class _LoadWriter(SinkWriter[Any]):
    """Writes the rows of one worker as lines of JSON, with one file for each table, or into its token."""

    def __init__(self, sink: LoadSink, context: SinkContext) -> None:
        self._sink = sink
        self._context = context
        self._directory = sink.directory_of(context)
        self._blocks: dict[str, BlockWriter] = {}
        self._bytes: Counter[str] = Counter()
        self._files: dict[str, list[str]] = {}

    def write(self, bundle: Bundle) -> None:
        blocks = self._blocks
        for destination, line in bundle.values:
            found = blocks.get(destination)
            if found is None:
                found = blocks[destination] = BlockWriter()
                self._files[destination] = []
            found.add(line)
            self._bytes[destination] += len(line)
            if self._bytes[destination] > _FILE_BYTES and self._directory is not None:
                self._write_file(destination)

    def stage(self) -> Any:
        if self._directory is None:
            return [(destination, [], found.blocks()) for destination, found in self._blocks.items()]
        for destination in self._blocks:
            if self._bytes[destination]:
                self._write_file(destination)
        return [(destination, files, []) for destination, files in self._files.items()]

    def _write_file(self, destination: str) -> None:
        files = self._files[destination]
        files.append(self._written(destination, len(files), self._blocks[destination].blocks()))
        self._bytes[destination] = 0

    def _written(self, destination: str, number: int, blocks: Sequence[bytes]) -> str:
        """Write the rows of a table to a file, and return its path."""
        directory = self._directory
        assert directory is not None
        name = f"{_digest(destination, self._context.unit)}-{number}.json"
        path = join_path(directory, name)

        def write() -> None:
            fs = filesystem_for(path)
            fs.mkdirs(directory)
            with fs.create(path) as file:
                for row in records_of(blocks):
                    file.write(row)
                    file.write(b"\n")
            fs.sync(path)

        self._sink.reached(self._context, directory, write)
        return path

    def discard(self) -> None:
        self._blocks = {}


# Jobs whose ids are made of transactions


def job_id(context: SinkContext, table: TableName) -> str:
    """Return the beginning of the ids of the jobs of a transaction for a table."""
    return f"penstock_{_digest(context.label, context.transaction, str(table))}"


def _digest(*parts: str) -> str:
    return hashlib.blake2s("\0".join(parts).encode(), digest_size=16).hexdigest()


def _reference(bigquery: Any, table: TableName) -> Any:
    return bigquery.TableReference(bigquery.DatasetReference(table.project, table.dataset), table.table)


# Tables whose rows are replaced by those of streams


def _staging(context: SinkContext, table: TableName) -> TableName:
    """Return the staging table of a transaction for a table."""
    return attrs.evolve(table, table=f"penstock_{_digest(context.label, context.transaction, str(table))}")


def _make_staging(tables: Tables, context: SinkContext, table: TableName) -> TableName:
    staging = _staging(context, table)
    tables.make_staging(table, staging)
    return staging


def _remove_staging(tables: Tables, context: SinkContext, table: TableName) -> None:
    """Remove a staging table, if it is still there.  If that fails, it expires."""
    staging = _staging(context, table)
    try:
        tables.reached(
            staging,
            "can't be removed",
            lambda: tables.client.delete_table(staging.sql, not_found_ok=True, retry=None, timeout=60.0),
        )
    except SinkError as error:
        _logger.warning("%s; it expires in a week", error)


def _begin_replacement(tables: Tables, table: TableName, staging: TableName, streams: Sequence[str], id: str) -> Any:
    """Begin the job that replaces the rows of a table by those of streams, or return the one with the same id."""
    try:
        # The staging table of a job that has succeeded may be gone.
        return _job(tables, table, id, None)
    except exceptions().NotFound:
        pass
    query = f"TRUNCATE TABLE `{table.sql}`"
    if streams:
        _commit(tables, staging, streams)
        columns = ", ".join(f"`{column.name}`" for column in tables.columns(table) or ())
        insert = f"INSERT INTO `{table.sql}` ({columns}) SELECT {columns} FROM `{staging.sql}`"
        query = f"BEGIN TRANSACTION; {query}; {insert}; COMMIT TRANSACTION;"
    location = _location(tables, table)
    return tables.client.query(query, job_id=id, location=location, retry=None, job_retry=None, timeout=60.0)


# How many jobs are tried, if others may succeed, and the longest delay between them, in seconds.
_ATTEMPTS = 10
_LONGEST_DELAY = 60.0


def run_once(tables: Tables, table: TableName, id: str, what: str, begin: Any, project: str | None = None) -> str:
    """Run a job, unless one of its name has succeeded, and return the id of the one that has.

    BigQuery refuses an id that is used, so that a job whose answer was lost isn't run again.

    Args:
      begin: begins the job with an id.
    """
    for attempt in range(_ATTEMPTS):
        name = f"{id}_{attempt}"
        job = tables.reached(table, what, partial(_begun, tables, table, begin, name, project))
        delay = 0.05
        while job.state != "DONE":
            paused(delay)
            delay = min(2 * delay, 5.0)
            tables.reached(table, what, partial(job.reload, retry=None, timeout=60.0))
        error = job.error_result
        if not error:
            _logger.info("%s: job %s has written to %s", tables.label, name, table)
            return name
        if error.get("reason") not in LATER:
            details = "; ".join(str(each.get("message")) for each in (job.errors or [error])[:3])
            said = f"job {name}: {error.get('reason')}: {details}{advice_of_reason(error.get('reason'))}"
            raise SinkError(f"{tables.label}: BigQuery's {table}: {what}: {said}")
        _logger.warning("%s: job %s has failed, and is tried again: %s", tables.label, name, error.get("message"))
        paused(min(0.5 * 2**attempt, _LONGEST_DELAY))
    said = f"{_ATTEMPTS} jobs {id} have failed: {error.get('message')}{advice_of_reason(error.get('reason'))}"
    raise SinkError(f"{tables.label}: BigQuery's {table}: {what}: {said}")


def _begun(tables: Tables, table: TableName, begin: Any, id: str, project: str | None) -> Any:
    """Begin a job, or return the one with the same id."""
    try:
        return begin(id)
    except exceptions().Conflict:
        return _job(tables, table, id, project)


def _job(tables: Tables, table: TableName, id: str, project: str | None) -> Any:
    location = _location(tables, table)
    return tables.client.get_job(id, project=project, location=location, retry=None, timeout=60.0)


def _location(tables: Tables, table: TableName) -> str:
    """Return where a table is: its jobs are there, too."""
    dataset = tables.client.get_dataset(f"{table.project}.{table.dataset}", retry=None, timeout=60.0)
    return str(dataset.location)
