"""WriteToBigQuery: rows of tables."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from ...frozen import frozen
from ...sdk.errors import UnsupportedError
from ...sdk.options.value_provider import ValueProvider, value_of
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection
from ...sdk.redaction import logger_of
from ...transforms import FlatMap, Flatten, GroupByKey, Map, ParDo, WindowInto, WithKeys
from ...transforms.write import WriteAs
from ...triggers import AccumulationMode, AfterProcessingTime, Repeatedly
from ...windowing import GlobalWindows
from .changes import ChangeSink
from .client import TableName, package
from .published import LoadRows
from .rows import FAILED, ConvertRows, Form, InsertRows
from .schemas import schema_of
from .sinks import LoadSink, StreamSink
from .streams import PARTITIONS
from .tables import APPEND, AUTODETECT, EMPTY, TRUNCATE, Tables, Target

__all__ = ["WriteToBigQuery"]

_logger = logger_of(__name__)

_METHODS = ("DEFAULT", "STREAMING_INSERTS", "FILE_LOADS", "STORAGE_WRITE_API")
_CREATE = ("CREATE_IF_NEEDED", "CREATE_NEVER")
_WRITE = (APPEND, TRUNCATE, EMPTY)
_RETRY: Final = ("RETRY_ALWAYS", "RETRY_NEVER", "RETRY_ON_TRANSIENT_ERROR")

_FORMS = {"STORAGE_WRITE_API": Form.MESSAGE, "FILE_LOADS": Form.LINE, "STREAMING_INSERTS": Form.JSON}

# Between how many workers rows are distributed that are collected for a time.
_SHARDS = 16


@frozen
class WriteResult:
    """What a write gives.

    Attributes:
      failed_rows: the rows that don't fit their tables, as pairs of the table's name and the row; with
        STORAGE_WRITE_API given as the method, the rows.
      failed_rows_with_errors: the same with errors: of the Storage Write API dicts with "failed_row" and
        "error_message", of others `(table, row, [error, ...])`.
      destination_load_jobid_pairs: with FILE_LOADS and a bounded input, pairs of a table's name and its job.  If a
        transform is applied to it, rows are loaded when the input is written, and not at the end of the run.
    """

    failed_rows: PCollection[Any]
    failed_rows_with_errors: PCollection[Any]
    _jobs: PCollection[Any] | None = None

    @property
    def destination_load_jobid_pairs(self) -> PCollection[Any]:
        """Pairs of a table's name and the `JobReference` of its load job."""
        if self._jobs is None:
            raise UnsupportedError("WriteToBigQuery: destination_load_jobid_pairs is there with method FILE_LOADS only")
        return self._jobs

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_THERE:
            raise UnsupportedError(f"WriteToBigQuery: {name} isn't there; use destination_load_jobid_pairs")
        raise AttributeError(name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, _OUTPUTS.get(name, name))


_NOT_THERE = ("destination_file_pairs", "destination_copy_jobid_pairs")
_OUTPUTS = {"FailedRows": "failed_rows", "FailedRowsWithErrors": "failed_rows_with_errors"}


class WriteToBigQuery(PTransform):
    """Rows, such as dicts, into tables of BigQuery.

    Takes a `PCollection[T]` of records.

    With the Storage Write API, and with load jobs, each row is in its table once, also after failures: workers append
    rows to pending streams, or write files, and a commit makes the rows of a table visible at once.  Streaming inserts
    are at least once.  With `use_cdc_writes` rows are replaced and deleted by their primary key, and retractions delete
    rows.  A row that doesn't fit its table is in the result's `failed_rows`.  Needs the extra `bigquery`.

    Args:
      table: 'PROJECT:DATASET.TABLE', 'DATASET.TABLE', a table if `dataset` is given, or a function from an element, and
        `table_side_inputs`, to one of these.
      dataset, project: those of names without.
      schema: 'name:STRING,n:INTEGER', a dict, a list of columns, JSON, the path of a file of JSON, an object such as
        Beam's `TableSchema`, a function from a table's name, as the function of the table gives it, and
        `schema_side_inputs`, to one of these, 'SCHEMA_AUTODETECT' for load jobs, or None for that of the table.
      create_disposition: CREATE_IF_NEEDED or CREATE_NEVER.
      write_disposition: WRITE_APPEND; WRITE_TRUNCATE: the commit replaces the rows of the table; or WRITE_EMPTY: the
        table must be empty.  A stream takes WRITE_APPEND only.
      method: STORAGE_WRITE_API, FILE_LOADS or STREAMING_INSERTS; DEFAULT is FILE_LOADS for a table that is replaced or
        must be empty, and for a partition by name ('DATASET.TABLE$20260131'), and STORAGE_WRITE_API otherwise.
      kms_key: that encrypts a table that is created.
      custom_gcs_temp_location: a directory in Google Cloud Storage for files of load jobs; without it rows are sent
        with the jobs, and are part of checkpoints until then.
      insert_retry_strategy: of streaming inserts, which refused rows are inserted again: RETRY_ALWAYS and
        RETRY_ON_TRANSIENT_ERROR: those whose error isn't of the row itself; RETRY_NEVER: none.
      additional_bq_parameters: of tables that are created and of load jobs, as BigQuery's API has them, such as
        `timePartitioning`, `clustering` and `schemaUpdateOptions`; or a function from a table's name to them.
      triggering_frequency: of a stream, the seconds for which rows are collected before they are written.  Required for
        load jobs of a stream, of which BigQuery permits 1,500 a day for a table.
      ignore_unknown_columns: drops values of columns that a table doesn't have.
      load_job_project_id: the project that load jobs are run in.
      with_batched_input: elements are lists of rows.
      use_cdc_writes: rows are changes, by `primary_key`; or a function from a row to its change.  A change is a dict
        with `mutation_type` UPSERT or DELETE, and `change_sequence_number`.  An element is a row, or a dict with
        `row_mutation_info`, the change, and `record`, the row.

    Raises `MissingExtraError`, `ValueError` and `UnsupportedError` while the pipeline is built, and `SinkError` before
    the run starts if the table can't be written to.

    >>> import penstock as beam
    >>> beam.io.WriteToBigQuery("shop:sales.orders", schema="id:INTEGER,item:STRING").display_data()
    {'table': 'shop:sales.orders', 'method': 'STORAGE_WRITE_API'}
    """

    def __init__(
        self,
        table: Any,
        dataset: str | None = None,
        project: str | None = None,
        schema: Any = None,
        create_disposition: str = "CREATE_IF_NEEDED",
        write_disposition: str = APPEND,
        method: str | None = None,
        kms_key: str | None = None,
        custom_gcs_temp_location: str | ValueProvider | None = None,
        insert_retry_strategy: str | None = None,
        additional_bq_parameters: Mapping[str, Any] | Callable[[str], Any] | ValueProvider | None = None,
        table_side_inputs: Sequence[Any] = (),
        schema_side_inputs: Sequence[Any] = (),
        triggering_frequency: float | None = None,
        ignore_unknown_columns: bool = False,
        load_job_project_id: str | None = None,
        with_batched_input: bool = False,
        use_cdc_writes: bool | Callable[[Any], Any] = False,
        primary_key: Sequence[str] | None = None,
        ignore_insert_ids: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        package(name)
        _one_of(name, "create_disposition", create_disposition, _CREATE)
        _one_of(name, "write_disposition", write_disposition, _WRITE)
        _one_of(name, "method", method or "DEFAULT", _METHODS)
        _one_of(name, "insert_retry_strategy", insert_retry_strategy or _RETRY[0], _RETRY)
        self.function = table if callable(table) else None
        table = None if callable(table) else value_of(table)
        if schema_side_inputs and table is not None:
            # The schema isn't known before the first row.
            self.function, table = partial(_always, table), None
        name_of_table = None if table is None else TableName.of(name, table, dataset, project)
        schema = value_of(schema)
        self.is_explicit = method in _METHODS[1:]
        is_partition = name_of_table is not None and name_of_table.is_partition
        self.method = _method(method, write_disposition, schema, bool(use_cdc_writes), is_partition)
        if not (callable(schema) or schema in (None, AUTODETECT)):
            schema = schema_of(name, schema)
        self.written = Target(
            name_of_table,
            dataset,
            project,
            schema,
            create_disposition == _CREATE[0],
            write_disposition,
            value_of(additional_bq_parameters) or {},
            kms_key,
            tuple(primary_key or ()),
            ignore_unknown_columns,
            # As Beam has it.
            base64_bytes=method != "STORAGE_WRITE_API",
        )
        self._directory = custom_gcs_temp_location
        self._retry = insert_retry_strategy or _RETRY[0]
        self._side_inputs = (*(table_side_inputs or ()), *(schema_side_inputs or ()))
        self._schema_inputs = len(schema_side_inputs or ())
        self._every = triggering_frequency
        self._project = load_job_project_id
        self._is_batched = with_batched_input
        self._changes = use_cdc_writes
        self._ignores_ids = ignore_insert_ids
        self._check(name)

    def _check(self, name: str) -> None:
        """Raise `ValueError` for arguments that don't go together."""
        target, method = self.written, self.method
        if target.schema == AUTODETECT and method != "FILE_LOADS":
            raise ValueError(f"{name}: {AUTODETECT} is for FILE_LOADS, not for {method}; give the schema")
        if method == "STORAGE_WRITE_API" and target.table is not None and target.table.is_partition:
            raise ValueError(f"{name}: {PARTITIONS.format(target.table)}")
        if method == "STREAMING_INSERTS" and target.disposition != APPEND:
            raise ValueError(f"{name}: streaming inserts can't do {target.disposition}; use FILE_LOADS")
        if self._changes and method != "STORAGE_WRITE_API":
            raise ValueError(f"{name}: use_cdc_writes is for STORAGE_WRITE_API, not for {method}")
        if self._changes and target.disposition != APPEND:
            raise ValueError(f"{name}: use_cdc_writes can't do {target.disposition}")
        if self._changes and not target.key:
            raise ValueError(f"{name}: use_cdc_writes needs primary_key, the columns that identify a row")
        if method == "STORAGE_WRITE_API" and target.disposition == EMPTY:
            raise ValueError(f"{name}: streams can't be committed to an empty table only; use FILE_LOADS")
        directory = value_of(self._directory)
        if directory is not None and method == "FILE_LOADS" and not str(directory).startswith("gs://"):
            raise ValueError(f"{name}: custom_gcs_temp_location must begin with gs://, got {directory!r}")

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        table = "by element" if self.written.table is None else str(self.written.table)
        return {"table": table, "method": self.method}

    def expand(self, pcoll: PCollection[Any]) -> WriteResult:
        label = pcoll.pipeline.full_label
        if not pcoll.is_bounded:
            self._check_stream(label)
        rows = pcoll | "Rows" >> FlatMap(_each) if self._is_batched else pcoll
        inserts = self.method == "STREAMING_INSERTS"
        form = Form.FIELDS if self._changes else _FORMS[self.method]
        convert = ConvertRows(label, self.written, self.function, form, self._changes, self._schema_inputs)
        converted = rows | "Convert" >> ParDo(convert, *self._side_inputs).with_outputs(FAILED, main="rows")
        failed = [converted[FAILED]]
        fit = converted["rows"]
        if self._every is not None and not pcoll.is_bounded and not self._changes:
            fit = _collected(fit, self._every)
        jobs = None
        if inserts:
            pcoll.pipeline.add_check(_Reached(label, self.written))
            _logger.warning("%s: streaming inserts are at least once: after a failure rows may be twice", label)
            insert = InsertRows(label, self.written, self._retry, self._ignores_ids)
            failed.append((fit | "Insert" >> ParDo(insert).with_outputs(FAILED, main="none"))[FAILED])
        elif self.method == "FILE_LOADS":
            directory = value_of(self._directory)
            sink = LoadSink(self.written, None if directory is None else str(directory), self._project)
            jobs = fit | "Load" >> LoadRows(sink, label)
        else:
            _ = fit | WriteAs(ChangeSink(self.written) if self._changes else StreamSink(self.written), label)
        return self._result(failed, jobs)

    def _check_stream(self, label: str) -> None:
        if self.method == "FILE_LOADS" and self._every is None:
            raise ValueError(
                f"{label}: load jobs of a stream need triggering_frequency, the seconds for which rows are collected; "
                "or use STORAGE_WRITE_API"
            )
        if self.written.disposition != APPEND:
            raise ValueError(f"{label}: {self.written.disposition} is of one commit, and a stream makes many")

    def _result(self, failed: list[PCollection[Any]], jobs: PCollection[Any] | None) -> WriteResult:
        rows: PCollection[Any] = failed[0] if len(failed) == 1 else failed | "Failed" >> Flatten()
        of_streams = self.is_explicit and self.method == "STORAGE_WRITE_API"
        plain, full = (_row, _row_with_message) if of_streams else (_row_with_table, _same)
        return WriteResult(rows | "FailedRows" >> Map(plain), rows | "FailedRowsWithErrors" >> Map(full), jobs)


def _always(table: Any, row: Any, *side_inputs: Any) -> Any:
    return table


def _method(method: str | None, disposition: str, schema: Any, changes: bool, is_partition: bool) -> str:
    """Return the method that a write uses."""
    if method is not None and method != "DEFAULT":
        return method
    is_found_out = isinstance(schema, str) and schema == AUTODETECT
    loads = not changes and (disposition != APPEND or is_found_out or is_partition)
    return "FILE_LOADS" if loads else "STORAGE_WRITE_API"


def _one_of(name: str, argument: str, given: Any, known: Sequence[str]) -> None:
    if given not in known:
        raise ValueError(f"{name}: {argument} must be one of {', '.join(known)}, got {given!r}")


def _collected(rows: PCollection[Any], seconds: float) -> PCollection[Any]:
    """Return rows that are collected for a time, so that fewer commits have some."""
    trigger = Repeatedly(AfterProcessingTime(seconds))
    found: PCollection[Any] = (
        rows
        | "Shard" >> WithKeys(_shard)
        | "Collect" >> WindowInto(GlobalWindows(), trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING)
        | "Group" >> GroupByKey()
        | "Ungroup" >> FlatMap(_values)
    )
    return found


def _shard(row: Any) -> int:
    # The same in each process.
    return zlib.crc32(repr(row).encode()) % _SHARDS


def _values(group: tuple[Any, Any]) -> Any:
    return group[1]


def _each(rows: Any) -> Any:
    return rows


def _row(failed: tuple[str, Any, Any]) -> Any:
    return failed[1]


def _row_with_message(failed: tuple[str, Any, Any]) -> dict[str, Any]:
    _, row, errors = failed
    return {"failed_row": row, "error_message": errors[0]["message"]}


def _row_with_table(failed: tuple[str, Any, Any]) -> tuple[str, Any]:
    return failed[0], failed[1]


def _same(failed: Any) -> Any:
    return failed


@frozen
class _Reached:
    """Raises `SinkError` if a table can't be written to, before a pipeline is run."""

    label: str
    written: Target = attrs.field(eq=False)

    def __call__(self) -> None:
        tables = Tables(self.label, self.written)
        if self.written.table is not None:
            table = tables.named(self.written.table)
            tables.columns(table)
            tables.check_rights(table)
        tables.close()
