"""ReadFromDelta: the rows of a Delta table.  ReadFromDeltaChanges: its rows, and then their changes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ...frozen import frozen
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.watermark_estimators import EstimatorTypes
from ...windowing.duration import DurationTypes, seconds_of_span
from ..files.filesystem import AnyPath
from ..lakehouse.filters import arrow_filter, fields_of_filter
from ..lakehouse.read import check_columns, rows_of, rows_of_changes, times_of_changes, times_of_rows
from .changes import DeltaChanges
from .log import schema_of
from .package import package, uri_of
from .source import DeltaSource, Reading
from .stream import DeltaStream

if TYPE_CHECKING:
    from ...sdk.elements.row import Row  # noqa: F401 (in parameters of classes)


class ReadFromDelta(PTransform[PBegin, PCollection["Row"]]):
    """A Row for each row of a Delta table, as columns; or, with `streaming`, also for those that are added later.

    Returns a `PCollection[Row]`.

    Files are left out by the table's partitions and statistics, and row groups by theirs, if no row fits the `filter`.
    Only columns that are used are read.  Needs the extra `delta`.

    Args:
      table: the path or URL of the table, such as 's3://bucket/table'.  Credentials are taken from the environment.
      version: the number of the version to read; by default the last one when the run begins.
      timestamp: instead of a version, a time with a time zone: the version that the table had then.
      columns: the columns to read; None for all.
      filter: an expression, such as `beam.col("n") > 1`, or one of `pyarrow.dataset`; rows for which it isn't true are
        left out.
      streaming: reads the rows of the last version, and then those that each later version adds, until it is stopped.
      starting_version: with `streaming`, the first version whose added rows are read, without the rows before.
      skip_change_commits: with `streaming`, leaves out versions that delete or rewrite rows, instead of failing.
      poll_interval: with `streaming`, the time between two looks for new versions.
      timestamp_fn, watermark_estimator, idle_after: with `streaming`, see `EventTimes`.

    Raises `MissingExtraError`, and `SourceError` while the pipeline is built if the table is missing or has no such
    column.

    >>> import penstock as beam
    >>> import deltalake, pathlib, pyarrow, tempfile
    >>> table = pathlib.Path(tempfile.mkdtemp(), "people")
    >>> deltalake.write_deltalake(table, pyarrow.table({"name": ["Ada", "Bo"], "age": [36, 7]}))
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.io.ReadFromDelta(table, filter=beam.col("age") > 10) | beam.Map(print)
    Row(name='Ada', age=36)
    """

    def __init__(
        self,
        table: AnyPath,
        version: int | None = None,
        timestamp: datetime.datetime | str | None = None,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        streaming: bool = False,
        starting_version: int | None = None,
        skip_change_commits: bool = False,
        poll_interval: DurationTypes = 1.0,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._chosen = _Chosen.of(name, table, columns, filter)
        if version is not None and timestamp is not None:
            raise ValueError(f"{name}: version and timestamp exclude each other")
        if streaming and (version is not None or timestamp is not None):
            raise ValueError(f"{name}: with streaming=True give starting_version instead of a version or a timestamp")
        self._times = times_of_rows(
            name,
            streaming,
            timestamp_fn,
            watermark_estimator,
            idle_after,
            starting_version=starting_version,
            skip_change_commits=skip_change_commits,
        )
        _check_version(name, "version", version)
        _check_version(name, "starting_version", starting_version)
        self._version = _time(timestamp, name) if timestamp is not None else version
        self._streaming = streaming
        self._starting_version = starting_version
        self._skips_changes = skip_change_commits
        self._poll_interval = seconds_of_span(poll_interval)

    def expand(self, pbegin: PBegin) -> Any:
        reading = self._chosen.reading(pbegin.pipeline.full_label, self._version)
        source: Any = DeltaSource(reading, self._version)
        if self._streaming:
            source = DeltaStream(reading, self._times, self._starting_version, self._poll_interval, self._skips_changes)
        return rows_of(pbegin, source, reading.schema, reading.columns)

    def display_data(self) -> dict[str, Any]:
        version = {} if self._version is None else {"version": str(self._version)}
        return self._chosen.display_data() | version


class ReadFromDeltaChanges(PTransform[PBegin, PCollection["Row"]]):
    """The rows of a changing Delta table: each is an element from its insert on, and retracted by its update or delete.

    Returns a `PCollection[Row]`.

    So a pipeline behind it maintains its results as a database maintains a view.  First come the rows of the last
    version, and then the changes of each later version: those of the change data feed, if the table has
    `delta.enableChangeDataFeed`; otherwise the rows of the files that the version removes and adds.  Needs the extra
    `delta`.

    The event time of a row is that of the commit which adds or removes it.  Rows of the first version have the time at
    which its last file was written.

    Args:
      table, columns, poll_interval: as those of `ReadFromDelta`.
      filter: as that of `ReadFromDelta`; an update may add a row to those that it is true for, or remove it from them.
      starting_version: the first version whose changes are read, without the rows before.
      timestamp_fn: a function from a row to its event time.  A row is then retracted at the time at which it was added,
        as windows need it that aren't global.
      watermark_estimator, idle_after: see `EventTimes`.  By default the watermark follows the commits.

    Raises `MissingExtraError`, and `SourceError` while the pipeline is built if the table is missing or has no such
    column.

    >>> import penstock as beam
    >>> import deltalake, pathlib, pyarrow, tempfile
    >>> table = pathlib.Path(tempfile.mkdtemp(), "people")
    >>> deltalake.write_deltalake(table, pyarrow.table({"name": ["Ada", "Bo"], "age": [36, 7]}))
    >>> read = beam.io.ReadFromDeltaChanges(table, filter=beam.col("age") > 10)
    >>> read.display_data()["filter"]
    '(age > 10)'
    """

    def __init__(
        self,
        table: AnyPath,
        columns: Sequence[str] | None = None,
        filter: Any = None,
        *,
        starting_version: int | None = None,
        poll_interval: DurationTypes = 1.0,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._chosen = _Chosen.of(name, table, columns, filter)
        _check_version(name, "starting_version", starting_version)
        self._starting_version = starting_version
        self._poll_interval = seconds_of_span(poll_interval)
        self._times = times_of_changes(name, timestamp_fn, watermark_estimator, idle_after)

    def expand(self, pbegin: PBegin) -> Any:
        reading = self._chosen.reading(pbegin.pipeline.full_label, None)
        source = DeltaChanges(reading, self._times, self._starting_version, self._poll_interval)
        return rows_of_changes(pbegin, source, reading.schema, reading.columns)

    def display_data(self) -> dict[str, Any]:
        return self._chosen.display_data()


@frozen
class _Chosen:
    """The table, and the columns and rows of it that are read.

    Attributes:
      fields: the names of the fields of the filter, as far as they are known.
    """

    uri: str
    columns: tuple[str, ...] | None
    filter: Any
    fields: frozenset[str]

    @staticmethod
    def of(transform: str, table: AnyPath, columns: Sequence[str] | None, filter: Any) -> _Chosen:
        """Return what the arguments of a transform choose.  Raises `MissingExtraError`."""
        for module in ("deltalake", "pyarrow"):
            package(transform, module)
        names = None if columns is None else tuple(columns)
        converted, fields = arrow_filter(filter, transform), frozenset(fields_of_filter(filter))
        return _Chosen(uri_of(table, transform), names, converted, fields)

    def reading(self, label: str, version: Any) -> Reading:
        """Return how the rows are read.  Raises `SourceError` for a column that a version of the table doesn't have."""
        unknown = Reading(self.uri, label, None, (), (), self.filter)
        schema, partition_by = unknown.reached(lambda: schema_of(self.uri, label, version))
        columns = tuple(schema.names) if self.columns is None else self.columns
        check_columns(label, f"Delta table {self.uri!r}", schema, {*columns, *self.fields})
        return attrs.evolve(unknown, schema=schema, partition_by=tuple(partition_by), columns=columns)

    def display_data(self) -> dict[str, Any]:
        """Return what a drawing of the pipeline shows."""
        filter = {} if self.filter is None else {"filter": str(self.filter)}
        return {"table": self.uri} | filter


def _check_version(transform: str, name: str, version: Any) -> None:
    if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 0):
        raise ValueError(f"{transform}: {name} must be a whole number, 0 or more, got {version!r}")


def _time(timestamp: Any, name: str) -> datetime.datetime:
    try:
        time = datetime.datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
    except ValueError:
        time = None
    if not isinstance(time, datetime.datetime) or time.tzinfo is None:
        raise ValueError(
            f"{name}: timestamp must be a datetime with a time zone, or such a text, as in '2026-01-02T03:04:05Z'; got "
            f"{timestamp!r}"
        )
    return time
