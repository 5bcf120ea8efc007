"""ReadFromDelta: the rows of a Delta table."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from ...sdk.elements.row import Row
from ...sdk.errors import SourceError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.typehints.column_types import fields_of
from ...sdk.typehints.schema import with_schema
from ...sdk.watermark_estimators import EstimatorTypes
from ...transforms.read import Read
from ...windowing.duration import DurationTypes, seconds_of_span
from ..files.filesystem import AnyPath
from ..lakehouse.filters import arrow_filter, fields_of_filter
from ..waiting import patiently
from .log import schema_of
from .package import explained, package, uri_of
from .source import DeltaSource, Reading
from .stream import DeltaStream


class ReadFromDelta(PTransform):
    """A Row for each row of a Delta table, as columns; or, with `streaming`, also for those that are added later.

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
        package(name)
        package(name, "pyarrow")
        self._uri = uri_of(table, name)
        if version is not None and timestamp is not None:
            raise ValueError(f"{name}: version and timestamp exclude each other")
        if streaming and (version is not None or timestamp is not None):
            raise ValueError(f"{name}: with streaming=True give starting_version instead of a version or a timestamp")
        given = {
            "starting_version": starting_version is not None,
            "skip_change_commits": skip_change_commits,
            "timestamp_fn": timestamp_fn is not None,
            "watermark_estimator": watermark_estimator is not None,
            "idle_after": idle_after is not None,
        }
        for parameter in given:
            if given[parameter] and not streaming:
                raise ValueError(f"{name}: {parameter} needs streaming=True")
        for number, parameter in ((version, "version"), (starting_version, "starting_version")):
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
                raise ValueError(f"{name}: {parameter} must be a whole number, 0 or more, got {number!r}")
        self._version = _time(timestamp, name) if timestamp is not None else version
        self._columns = None if columns is None else tuple(columns)
        self._filter = arrow_filter(filter, name)
        self._filter_fields = fields_of_filter(filter)
        self._streaming = streaming
        self._starting_version = starting_version
        self._skips_changes = skip_change_commits
        self._poll_interval = seconds_of_span(poll_interval)
        self._times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        label = pbegin.pipeline.full_label

        def found() -> Any:
            with explained(self._uri, label, "can't be read"):
                return schema_of(self._uri, label, self._version)

        schema, partition_by = patiently(label, repr(self._uri), found)
        columns = tuple(schema.names) if self._columns is None else self._columns
        for name in sorted({*columns, *self._filter_fields} - {*schema.names}):
            raise SourceError(
                f"{label}: Delta table {self._uri!r} has no column {name!r}; it has {', '.join(schema.names)}"
            )
        reading = Reading(self._uri, label, schema, tuple(partition_by), columns, self._filter)
        source: Any = DeltaSource(reading, self._version)
        if self._streaming:
            source = DeltaStream(reading, self._times, self._starting_version, self._skips_changes, self._poll_interval)
        kinds = dict(fields_of(schema))
        element_type = with_schema(Row, [(name, kinds[name]) for name in columns])
        rows: PCollection[Any] = pbegin | Read(source).with_output_types(element_type)
        return rows

    def display_data(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"table": self._uri}
        if self._version is not None:
            shown["version"] = str(self._version)
        if self._filter is not None:
            shown["filter"] = str(self._filter)
        return shown


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
