"""ReadFromBigQuery: the rows of a table, or of a query's result.  ReadAllFromBigQuery: those of many."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, overload

import attrs

from ...frozen import frozen
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.element_wrappers import TaggedOutput
from ...sdk.options.value_provider import ValueProvider, value_of
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.redaction import logger_of
from ...sdk.side_inputs import AsIter
from ...sdk.type_variables import A
from ...transforms import Create, Filter, ParDo, Reshuffle
from ...transforms.read import Read
from ..lakehouse.read import rows_of
from .client import TableName, package
from .schemas import arrow_schema_of, schema_of
from .source import BigQuerySource, Query, Reading, check, read_stream, remove_table, run_query, schema_at, session_of

if TYPE_CHECKING:
    from typing import Literal, TypedDict, Unpack

    from ...sdk.elements.row import Row

    class _Settings(TypedDict, total=False):
        """Arguments of `ReadFromBigQuery` by name."""

        table: Any
        dataset: str | None
        project: str | None
        query: Any
        validate: bool
        use_standard_sql: bool
        flatten_results: bool
        kms_key: str | None
        bigquery_job_labels: Mapping[str, str] | None
        use_json_exports: bool
        temp_dataset: Any
        query_priority: str
        selected_fields: Iterable[str] | None
        row_restriction: str | None
        query_output_schema: Any
        coder: Any


_logger = logger_of(__name__)

# The kinds of `Reading.texts`.
_INTERVALS = frozenset({"interval"})
_LIKE_JSON = frozenset({"interval", "datetime", "timestamp", "date", "time", "binary"})


class ReadFromBigQuery(PTransform[PBegin, PCollection[A]]):
    """The rows of a BigQuery table, or of a query's result, as they are when the run begins: dicts, or Rows.

    Returns a `PCollection[dict[str, Any]]`, or a `PCollection[Row]` with `output_type="BEAM_ROW"`.

    They are read as columns by the Storage Read API, whatever the method.  Integers are ints, NUMERIC and BIGNUMERIC
    `Decimal`s, BYTES bytes, DATE, TIME and TIMESTAMP the types of `datetime`, records dicts, repeated fields lists;
    GEOGRAPHY, JSON and INTERVAL are text.  Needs the extra `bigquery`.  Credentials are those of Google's clients;
    `BIGQUERY_EMULATOR_HOST` is the address of another server.

    Args:
      gcs_location: has no effect: nothing is exported to files.
      method: 'EXPORT' or 'DIRECT_READ', which differ in DATETIME only.
      use_native_datetime: with 'DIRECT_READ', a DATETIME is a `datetime.datetime`, and not text, as with 'EXPORT'.
      output_type: 'PYTHON_DICT' or 'BEAM_ROW'.  For Rows, the table is asked for its schema while the pipeline is
        built.
      timeout: how long the answer to the request for a read session is waited for, in seconds.
      table: 'PROJECT:DATASET.TABLE', 'DATASET.TABLE', an object such as Google's `TableReference`, or a
        `ValueProvider`.
      dataset, project: those of a name without.
      query: instead of a table, SQL, or a `ValueProvider` of it.
      validate: asks for the table, or has the query checked, while the pipeline is built.
      use_standard_sql: the query is GoogleSQL; by default it is legacy SQL.
      flatten_results: legacy SQL flattens nested and repeated results.
      kms_key: encrypts the query's result.
      bigquery_job_labels: labels of the query's job.
      use_json_exports: gives dates and times as text, and BYTES in base64, as BigQuery's JSON files have them.
      temp_dataset: the dataset of the query's result, a name or an object such as Google's `DatasetReference`.  The
        table is removed once it was read, and expires after a day.  By default BigQuery keeps the result in a dataset
        of its own, for a day.
      query_priority: 'BATCH' or 'INTERACTIVE'.
      selected_fields: the columns to read, in order, or of records 'record.field'; None for all.
      row_restriction: a condition of SQL that rows of a table fulfil, such as "n > 1".
      query_output_schema: the columns of a query's result, for Rows; see `WriteToBigQuery`.
      coder: has no effect.

    Raises `MissingExtraError`, `ValueError` and `TypeError` while the pipeline is built, and `SourceError` when the run
    starts, or before with `validate`, if there is no such table, or the query is wrong.

    >>> import penstock as beam
    >>> beam.io.ReadFromBigQuery(table="shop:sales.orders", selected_fields=["item"]).display_data()
    {'table': 'shop:sales.orders'}
    """

    class Method:
        """The methods of reading."""

        EXPORT: ClassVar[str] = "EXPORT"
        DIRECT_READ: ClassVar[str] = "DIRECT_READ"

    @overload
    def __init__(
        self: ReadFromBigQuery[dict[str, Any]],
        gcs_location: Any = None,
        method: str | None = None,
        use_native_datetime: bool = False,
        output_type: Literal["PYTHON_DICT"] | None = None,
        timeout: float | None = None,
        **settings: Unpack[_Settings],
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromBigQuery[Row],
        gcs_location: Any = None,
        method: str | None = None,
        use_native_datetime: bool = False,
        *,
        output_type: Literal["BEAM_ROW"],
        timeout: float | None = None,
        **settings: Unpack[_Settings],
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromBigQuery[Any],
        gcs_location: Any = None,
        method: str | None = None,
        use_native_datetime: bool = False,
        output_type: str | None = None,
        timeout: float | None = None,
        **settings: Unpack[_Settings],
    ) -> None: ...
    def __init__(
        self,
        gcs_location: Any = None,
        method: str | None = None,
        use_native_datetime: bool = False,
        output_type: str | None = None,
        timeout: float | None = None,
        *,
        table: Any = None,
        dataset: str | None = None,
        project: str | None = None,
        query: Any = None,
        validate: bool = False,
        use_standard_sql: bool = False,
        flatten_results: bool = True,
        kms_key: str | None = None,
        bigquery_job_labels: Mapping[str, str] | None = None,
        use_json_exports: bool = False,
        temp_dataset: Any = None,
        query_priority: str = "BATCH",
        selected_fields: Iterable[str] | None = None,
        row_restriction: str | None = None,
        query_output_schema: Any = None,
        coder: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        package(name)
        if (table is None) == (query is None):
            raise ValueError(f"{name}: expected either a table or a query")
        method = method or "EXPORT"
        _check_choice(name, "method", method, ("EXPORT", "DIRECT_READ"))
        _check_choice(name, "output_type", output_type or "PYTHON_DICT", ("PYTHON_DICT", "BEAM_ROW"))
        if use_native_datetime and method == "EXPORT":
            raise TypeError(f"{name}: use_native_datetime needs method='DIRECT_READ'")
        if use_json_exports and method == "DIRECT_READ":
            raise ValueError(f"{name}: use_json_exports and method='DIRECT_READ' exclude each other")
        self._as_rows = output_type == "BEAM_ROW"
        if self._as_rows and use_json_exports:
            raise ValueError(f"{name}: use_json_exports gives dicts only, not output_type='BEAM_ROW'")
        if row_restriction is not None and query is not None:
            raise ValueError(f"{name}: row_restriction restricts the rows of a table; put it into the query")
        if isinstance(selected_fields, str):
            raise TypeError(f"{name}: selected_fields must be a list of names, got {selected_fields!r}")
        if not isinstance(table, (str, ValueProvider, type(None))) and callable(table):
            raise TypeError(f"{name}: table must be a name or a ValueProvider; a function of elements is for writing")
        if isinstance(table, str):
            TableName.of(name, table, dataset, project)
        elif self._as_rows and isinstance(table, ValueProvider):
            raise TypeError(f"{name}: output_type='BEAM_ROW' needs a table that is known while the pipeline is built")
        self._schema = None if query_output_schema is None else schema_of(name, query_output_schema)
        if self._as_rows and query is not None and self._schema is None:
            raise ValueError(f"{name}: output_type='BEAM_ROW' of a query needs query_output_schema, its columns")
        self._table, self._dataset, self._project = table, dataset, project
        self._query = None
        if query is not None:
            self._query = _query(
                name,
                query,
                use_standard_sql,
                flatten_results,
                query_priority,
                kms_key,
                bigquery_job_labels,
                temp_dataset,
            )
        self._validate = validate
        self._columns = tuple(selected_fields or ())
        self._row_restriction = row_restriction
        self._timeout = timeout
        self._texts = _INTERVALS
        if use_json_exports:
            self._texts = _LIKE_JSON
        elif method == "DIRECT_READ" and not use_native_datetime and not self._as_rows:
            self._texts |= {"datetime"}

    def expand(self, pbegin: PBegin) -> PCollection[A]:
        label = pbegin.pipeline.full_label
        project = project_of(pbegin.pipeline)
        name = None
        if self._query is None:
            name = partial(_name_of, label, self._table, self._dataset, self._project or project)
        reading = Reading(
            label,
            self._columns,
            name,
            self._query,
            self._project if self._query is not None and self._project else project,
            self._row_restriction,
            self._as_rows,
            self._texts,
            self._timeout,
        )
        if self._validate:
            check(reading)
        if self._as_rows:
            schema = schema_at(reading) if self._schema is None else arrow_schema_of(self._schema)
            reading = attrs.evolve(reading, columns=self._columns or tuple(schema.names))
            rows = rows_of(pbegin, BigQuerySource(reading), schema, reading.columns)
        else:
            rows = pbegin | Read(BigQuerySource(reading)).with_output_types(dict[str, Any])
        if self._query is not None and self._query.temporary is not None:
            _remove_when_read(
                pbegin.pipeline | "Temporary" >> Create([self._query.temporary]), rows, label, reading.project
            )
        return rows

    def default_label(self) -> str:
        return type(self).__name__

    def display_data(self) -> dict[str, Any]:
        if self._query is not None:
            return {"query": str(self._query.text)}
        if isinstance(self._table, ValueProvider):
            return {"table": str(self._table)}
        return {"table": str(TableName.of(type(self).__name__, self._table, self._dataset, self._project))}


def project_of(pipeline: Any) -> str | None:
    """Return the project that a pipeline's options name, as Beam's `--project` does."""
    found = pipeline.options.get_all_options().get("project")
    return None if found is None else str(value_of(found))


def _check_choice(transform: str, name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{transform}: {name} must be {' or '.join(map(repr, choices))}, got {value!r}")


def _name_of(label: str, table: Any, dataset: str | None, project: str | None) -> TableName:
    return TableName.of(label, value_of(table), dataset, project)


def _query(
    transform: str,
    text: Any,
    is_standard: bool,
    flattens: bool,
    priority: str,
    kms_key: str | None,
    labels: Mapping[str, str] | None,
    temp_dataset: Any,
) -> Query:
    _check_choice(transform, "query_priority", priority, ("BATCH", "INTERACTIVE"))
    temporary = None if temp_dataset is None else _temporary(transform, temp_dataset)
    return Query(text, is_standard, flattens, priority, kms_key, dict(labels or {}), temporary)


def _temporary(transform: str, dataset: Any) -> TableName:
    """Return the name of a table in a dataset, which no other has."""
    project = getattr(dataset, "projectId", None) or getattr(dataset, "project", None)
    id = getattr(dataset, "datasetId", None) or getattr(dataset, "dataset_id", None)
    if isinstance(dataset, str):
        project, _, id = dataset.replace(":", ".").rpartition(".")
    if not isinstance(id, str) or not id:
        raise ValueError(f"{transform}: temp_dataset must be a dataset such as 'PROJECT.DATASET', got {dataset!r}")
    return TableName(project or None, id, f"penstock_{uuid.uuid4().hex}")


def _remove_when_read(tables: PCollection[TableName], rows: PCollection[Any], label: str, project: str | None) -> None:
    """Remove temporary tables once all rows were read."""
    nothing = rows | "Nothing" >> Filter(lambda row: False)
    _ = tables | "Remove" >> ParDo(_Remove(label, project), AsIter(nothing))


class _Remove(DoFn):
    def __init__(self, label: str, project: str | None) -> None:
        self._label = label
        self._project = project

    def process(self, table: TableName, nothing: Iterable[Any]) -> None:
        try:
            remove_table(self._label, table, self._project)
        except Exception:
            _logger.warning("%s: %s can't be removed; it expires in a day", self._label, table, exc_info=True)


# Many tables and queries


@frozen
class ReadFromBigQueryRequest:
    """A table or a query of `ReadAllFromBigQuery`.

    Args:
      query: SQL.
      use_standard_sql: the query is GoogleSQL; otherwise legacy SQL.
      table: instead of a query, as that of `ReadFromBigQuery`.
      flatten_results: legacy SQL flattens nested and repeated results.

    Raises `ValueError` without a table and a query, or with both.

    >>> from penstock.io.bigquery.read import ReadFromBigQueryRequest
    >>> ReadFromBigQueryRequest(table="sales.orders").table
    'sales.orders'
    """

    query: str | None = None
    use_standard_sql: bool = True
    table: Any = None
    flatten_results: bool = False

    def __attrs_post_init__(self) -> None:
        if (self.table is None) == (self.query is None):
            raise ValueError("ReadFromBigQueryRequest: expected either a table or a query")


class ReadAllFromBigQuery(PTransform):
    """The rows of the tables and queries of `ReadFromBigQueryRequest`s, as dicts.

    Returns a `PCollection[dict[str, Any]]`.

    Args: as those of `ReadFromBigQuery`.

    >>> import penstock as beam
    >>> beam.io.ReadAllFromBigQuery(temp_dataset="sales").default_label()
    'ReadAllFromBigQuery'
    """

    def __init__(
        self,
        gcs_location: Any = None,
        validate: bool = False,
        kms_key: str | None = None,
        temp_dataset: Any = None,
        bigquery_job_labels: Mapping[str, str] | None = None,
        query_priority: str = "BATCH",
    ) -> None:
        super().__init__()
        name = type(self).__name__
        package(name)
        _query(name, "", True, False, query_priority, kms_key, bigquery_job_labels, temp_dataset)
        self._settings = (query_priority, kms_key, bigquery_job_labels, temp_dataset)

    def expand(self, requests: PCollection[ReadFromBigQueryRequest]) -> PCollection[dict[str, Any]]:
        label, project = requests.pipeline.full_label, project_of(requests.pipeline)
        split = requests | "Split" >> ParDo(_Split(label, project, self._settings)).with_outputs(
            _Split.TEMPORARY, main="streams"
        )
        streams = split["streams"] | Reshuffle()
        rows = streams | "Read" >> ParDo(_ReadStream()).with_output_types(dict[str, Any])
        _remove_when_read(split[_Split.TEMPORARY], rows, label, project)
        return rows

    def default_label(self) -> str:
        return type(self).__name__


class _Split(DoFn):
    """Turns requests into streams of read sessions."""

    TEMPORARY = "temporary"
    # Of each session, at most.
    _STREAMS = 16

    def __init__(self, label: str, project: str | None, settings: tuple[Any, ...]) -> None:
        self._label = label
        self._project = project
        self._settings = settings

    def process(self, request: Any) -> Iterator[Any]:
        query = None
        if request.query is not None:
            query = _query(
                self._label, request.query, request.use_standard_sql, request.flatten_results, *self._settings
            )
        name = None
        if query is None:
            name = partial(_name_of, self._label, request.table, None, self._project)
        reading = Reading(self._label, (), name, query, self._project, None, False, _INTERVALS, None)
        with reading.open() as client:
            found = run_query(reading, client) if name is None else name().within(client.project)
            session = session_of(reading, found, client.project, self._STREAMS)
        if query is not None and query.temporary is not None:
            yield TaggedOutput(self.TEMPORARY, found)
        schema = session.arrow_schema.serialized_schema
        yield from ((reading, stream.name, schema) for stream in session.streams)


class _ReadStream(DoFn):
    def process(self, stream: tuple[Reading, str, bytes]) -> Iterator[dict[str, Any]]:
        for bundle in read_stream(*stream):
            yield from bundle.values
