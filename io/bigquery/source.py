"""BigQuerySource: the rows of a table, or of a query's result, as columns.  A split is a stream of a read session."""

from __future__ import annotations

import base64
import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, TypeVar

from ...frozen import frozen
from ...sdk.columns.column_bundle import COLUMN_BUNDLE_SIZE, ColumnBundle, in_microseconds
from ...sdk.columns.column_elements import as_dicts, as_rows
from ...sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ...sdk.elements.row import Row
from ...sdk.errors import SourceError
from ...sdk.options.value_provider import value_of
from ..lakehouse.source import TableReading, TableSource
from .client import TIMEOUT, TableName, explained, open_client, open_read_client, package, waited_for
from .values import rows_of

T = TypeVar("T")

# How long BigQuery keeps a temporary table that isn't removed.
_KEPT = datetime.timedelta(days=1)


@frozen
class Query:
    """A query, and how it is run.

    Args:
      text: SQL, or a `ValueProvider` of it.
      is_standard: GoogleSQL; otherwise legacy SQL.
      flattens: whether legacy SQL flattens nested and repeated results.
      priority: 'BATCH' or 'INTERACTIVE'.
      temporary: the table that the result is written to; None for one that BigQuery makes, and removes after a day.
    """

    text: Any
    is_standard: bool
    flattens: bool
    priority: str
    kms_key: str | None
    labels: Mapping[str, str]
    temporary: TableName | None

    def config(self, transform: str, **others: Any) -> Any:
        """Return the client's configuration of a job."""
        bigquery = package(transform)
        config = bigquery.QueryJobConfig(
            use_legacy_sql=not self.is_standard, priority=self.priority, labels=dict(self.labels), **others
        )
        if not self.is_standard:
            config.flatten_results = self.flattens
            config.allow_large_results = self.temporary is not None
        if self.kms_key is not None:
            config.destination_encryption_configuration = bigquery.EncryptionConfiguration(self.kms_key)
        return config


@frozen
class Reading(TableReading):
    """What is read.

    Attributes:
      name: of the table; None for a query.
      columns: those that are read, in order; () for all of them.
      project: which pays; None for that of the table, or of the credentials.
      as_rows: gives Rows; otherwise dicts.
      texts: the types whose values are given as text: "datetime", or a name of pyarrow's predicates, such as "date".
      timeout: how long the answer to a request for a read session is waited for, in seconds.
    """

    label: str
    columns: tuple[str, ...]
    name: Callable[[], TableName] | None
    query: Query | None
    project: str | None
    row_restriction: str | None
    as_rows: bool
    texts: frozenset[str]
    timeout: float | None = None

    @property
    def table(self) -> str:
        if self.name is None:
            return "query"
        return str(self.name())

    def explained(self, what: str) -> AbstractContextManager[None]:
        return explained(self.label, self.table, what)

    def reached(self, call: Callable[[], T], what: str = "can't be read") -> T:
        with self.explained(what):
            return waited_for(self.label, self.table, call)

    def opened(self, open: Callable[[], Any]) -> Any:
        """Return a client that a function opens.  Raises `SourceError` without credentials."""
        with self.explained("can't be read"):
            return open()

    def open(self) -> Any:
        """Return Google's client of tables and jobs."""
        return self.opened(lambda: open_client(self.label, self.project))


class BigQuerySource(TableSource):
    """The rows of a table, or of a query's result, as they are when the run begins."""

    reading: Reading

    def identity(self) -> Mapping[str, Any]:
        reading = self.reading
        of = {"table": reading.table} if reading.query is None else {"query": value_of(reading.query.text)}
        return {**of, "columns": list(reading.columns), "row_restriction": reading.row_restriction}

    def estimate_size(self) -> int | None:
        reading = self.reading
        if reading.name is None:
            return None
        name = reading.name()
        with reading.open() as client:
            size: int | None = reading.reached(
                lambda: client.get_table(name.sql, retry=None, timeout=TIMEOUT)
            ).num_bytes
        return size

    def split(self, desired_splits: int) -> Sequence[Any]:
        reading = self.reading
        with reading.open() as client:
            if reading.name is not None:
                name = reading.name().within(client.project)
            else:
                name = run_query(reading, client)
            session = session_of(reading, name, client.project, desired_splits)
        return [(stream.name, session.arrow_schema.serialized_schema) for stream in session.streams]

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        yield from read_stream(self.reading, *split)


def schema_at(reading: Reading) -> Any:
    """Return the `pyarrow.Schema` of a table as it is now."""
    import pyarrow as pa

    assert reading.name is not None
    with reading.open() as client:
        session = session_of(reading, reading.name().within(client.project), client.project, 1)
    return pa.ipc.read_schema(pa.py_buffer(session.arrow_schema.serialized_schema))


def check(reading: Reading) -> None:
    """Raise `SourceError` if a table can't be reached, or a query is wrong."""
    with reading.open() as client:
        if reading.name is not None:
            name = reading.name().within(client.project)
            reading.reached(lambda: client.get_table(name.sql, retry=None, timeout=TIMEOUT))
            return
        query = reading.query
        assert query is not None
        config = query.config(reading.label, dry_run=True)
        reading.reached(
            lambda: client.query(value_of(query.text), config, retry=None, job_retry=None, timeout=TIMEOUT),
            "is refused",
        )


def run_query(reading: Reading, client: Any) -> TableName:
    """Run the query, and return the table with its result."""
    query = reading.query
    assert query is not None
    id = f"penstock-{uuid.uuid4().hex}"
    others = {}
    if query.temporary is not None:
        others["destination"] = query.temporary.within(client.project).sql
        others["write_disposition"] = "WRITE_TRUNCATE"
    config = query.config(reading.label, **others)

    def begun() -> Any:
        try:
            return client.query(value_of(query.text), config, job_id=id, retry=None, job_retry=None, timeout=TIMEOUT)
        except import_module("google.api_core.exceptions").Conflict:
            # The answer to an earlier request was lost.
            return client.get_job(id, retry=None, timeout=TIMEOUT)

    job = reading.reached(begun, "is refused")
    reading.reached(lambda: job.result(retry=None, job_retry=None, max_results=0), "fails")
    found = job.destination
    name = TableName(found.project, found.dataset_id, found.table_id)
    if query.temporary is not None:
        reading.reached(lambda: _let_expire(client, name))
    return name


def _let_expire(client: Any, name: TableName) -> None:
    table = client.get_table(name.sql, retry=None, timeout=TIMEOUT)
    table.expires = datetime.datetime.now(datetime.UTC) + _KEPT
    client.update_table(table, ["expires"], retry=None, timeout=TIMEOUT)


def remove_table(label: str, name: TableName, project: str | None) -> None:
    """Remove a temporary table, if it is still there.  If that fails, it expires."""
    with open_client(label, project) as client:
        client.delete_table(name.within(client.project).sql, not_found_ok=True, retry=None, timeout=TIMEOUT)


def session_of(reading: Reading, name: TableName, project: str, desired_streams: int) -> Any:
    """Return a read session of a table as it is now: the client's, with about so many streams."""
    if name.is_partition:
        raise SourceError(
            f"{reading.label}: {name} names a partition, which the Storage Read API doesn't read; name the table, and "
            "restrict its rows: row_restriction=\"_PARTITIONDATE = '2026-01-31'\""
        )
    types = import_module("google.cloud.bigquery_storage_v1.types")
    wanted = types.ReadSession(
        table=name.path,
        data_format=types.DataFormat.ARROW,
        read_options=types.ReadSession.TableReadOptions(
            selected_fields=reading.columns, row_restriction=reading.row_restriction or ""
        ),
    )
    client = reading.opened(open_read_client)
    try:
        return reading.reached(
            lambda: client.create_read_session(
                parent=f"projects/{project}",
                read_session=wanted,
                max_stream_count=max(desired_streams, 1),
                retry=None,
                timeout=reading.timeout or TIMEOUT,
            )
        )
    finally:
        client.transport.close()


def read_stream(reading: Reading, stream: str, schema: bytes) -> Iterator[Bundle]:
    """Yield the rows of a stream; wait for a server that doesn't answer, and go on where it stopped."""
    import pyarrow as pa

    arrow_schema = pa.ipc.read_schema(pa.py_buffer(schema))
    texts = {name for name in reading.texts if any(_has(field.type, name) for field in arrow_schema)}
    offset = 0
    client = reading.opened(open_read_client)
    responses: Any = None

    def next_response() -> Any:
        nonlocal responses
        try:
            if responses is None:
                responses = iter(client.read_rows(stream, offset, retry=None, timeout=None))
            return next(responses, None)
        except Exception:
            responses = None
            raise

    try:
        while (response := reading.reached(next_response)) is not None:
            offset += response.row_count
            data = pa.py_buffer(response.arrow_record_batch.serialized_record_batch)
            batch = in_microseconds(pa.ipc.read_record_batch(data, arrow_schema))
            yield from _bundles(reading, batch, texts)
    finally:
        client.transport.close()


def _bundles(reading: Reading, batch: Any, texts: set[str]) -> Iterator[Bundle]:
    if reading.as_rows and reading.columns:
        batch = batch.select(reading.columns)
    if not texts:
        batch = _without_missing_lists(batch)
        for start in range(0, batch.num_rows, COLUMN_BUNDLE_SIZE):
            yield ColumnBundle(batch.slice(start, COLUMN_BUNDLE_SIZE), as_rows if reading.as_rows else as_dicts)
        return
    for start in range(0, batch.num_rows, BUNDLE_SIZE):
        rows = [_with_texts(row, texts) for row in rows_of(batch.slice(start, BUNDLE_SIZE))]
        yield Bundle([Row(**row) for row in rows] if reading.as_rows else rows)


def _without_missing_lists(batch: Any) -> Any:
    """Return a batch in which a REPEATED column without values is an empty list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for index, field in enumerate(batch.schema):
        column = batch.column(index)
        if pa.types.is_list(field.type) and column.null_count:
            batch = batch.set_column(index, field, pc.if_else(column.is_null(), pa.scalar([], field.type), column))
    return batch


def _has(kind: Any, name: str) -> bool:
    """Return whether an Arrow type is of a kind, or has a field of it."""
    import pyarrow as pa

    if name == "datetime":
        if pa.types.is_timestamp(kind) and kind.tz is None:
            return True
    elif getattr(pa.types, f"is_{name}")(kind):
        return True
    return any(_has(kind.field(i).type, name) for i in range(kind.num_fields))


def _with_texts(value: Any, kinds: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(each, kinds) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_texts(each, kinds) for each in value]
    for kind, (python, text) in _TEXTS.items():
        is_zoned = getattr(value, "tzinfo", None) is not None
        if kind in kinds and type(value) is python and is_zoned is (kind == "timestamp"):
            return text(value)
    return value


# By the kinds of `Reading.texts`, values and their texts as BigQuery exports them.
_TEXTS: Mapping[str, tuple[type, Callable[[Any], Any]]] = {
    "datetime": (datetime.datetime, lambda value: value.isoformat()),
    "timestamp": (
        datetime.datetime,
        lambda value: f"{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(' ')} UTC",
    ),
    "date": (datetime.date, lambda value: value.isoformat()),
    "time": (datetime.time, lambda value: value.isoformat()),
    "binary": (bytes, base64.b64encode),
}
