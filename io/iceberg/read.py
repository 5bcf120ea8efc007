"""ReadFromIceberg: the rows of an Iceberg table."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
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
from ..lakehouse.filters import fields_of_filter
from .catalog import Catalog, package
from .data_files import arrow_schema
from .filters import iceberg_filter
from .source import IcebergSource, Reading, schema_at
from .stream import IcebergStream
from .write import checked_name


class ReadFromIceberg(PTransform):
    """A Row for each row of an Iceberg table, as columns; or, with `streaming`, also for those that are added later.

    Files are left out by the table's partitions and statistics if no row fits the `filter`.  Only columns that are used
    are read.  Needs the extra `iceberg`.

    Args:
      table: the name of the table, with its namespace, such as 'shop.sales'.
      catalog_name, catalog_properties: see `WriteToIceberg`.
      filter: an expression that compares fields with values, such as `beam.col("n") > 1`; or one of the client, also as
        text.
      keep, drop: the columns to read, or those to leave out.
      snapshot_id: the snapshot to read; by default the last one when the run begins.
      timestamp: instead of a snapshot, a time with a time zone: the snapshot that the table had then.
      streaming: reads the rows of the last snapshot, and then those that each later one appends, until it is stopped.
      from_snapshot: with `streaming`, the first snapshot whose appended rows are read, without the rows before.
      skip_change_snapshots: with `streaming`, leaves out snapshots that delete or overwrite rows, instead of failing.
      poll_interval_seconds: with `streaming`, the time between two looks for new snapshots.
      timestamp_fn, watermark_estimator, idle_after: with `streaming`, see `EventTimes`.

    Raises `MissingExtraError`, and `SourceError` while the pipeline is built if the table is missing or has no such
    column.

    >>> import penstock as beam
    >>> read = beam.io.ReadFromIceberg("shop.sales", catalog_properties={"warehouse": "lake"}, keep=["item"])
    >>> read.display_data()
    {'table': 'shop.sales', 'catalog': 'default'}
    """

    def __init__(
        self,
        table: str,
        catalog_name: str | None = None,
        catalog_properties: Mapping[str, str] | None = None,
        filter: Any = None,
        keep: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        *,
        snapshot_id: int | None = None,
        timestamp: datetime.datetime | None = None,
        streaming: bool = False,
        from_snapshot: int | None = None,
        skip_change_snapshots: bool = False,
        poll_interval_seconds: DurationTypes = 1.0,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        package(name)
        package(name, "pyarrow")
        self._catalog = Catalog(catalog_name, catalog_properties)
        self._table = checked_name(table, name)
        for one, other in (("snapshot_id", "timestamp"), ("keep", "drop")):
            values = {"snapshot_id": snapshot_id, "timestamp": timestamp, "keep": keep, "drop": drop}
            if values[one] is not None and values[other] is not None:
                raise ValueError(f"{name}: {one} and {other} exclude each other")
        if streaming and (snapshot_id is not None or timestamp is not None):
            raise ValueError(f"{name}: with streaming=True give from_snapshot instead of a snapshot or a timestamp")
        given = {
            "from_snapshot": from_snapshot is not None,
            "skip_change_snapshots": skip_change_snapshots,
            "timestamp_fn": timestamp_fn is not None,
            "watermark_estimator": watermark_estimator is not None,
            "idle_after": idle_after is not None,
        }
        for parameter in given:
            if given[parameter] and not streaming:
                raise ValueError(f"{name}: {parameter} needs streaming=True")
        if timestamp is not None and (not isinstance(timestamp, datetime.datetime) or timestamp.tzinfo is None):
            raise ValueError(f"{name}: timestamp must be a datetime with a time zone; got {timestamp!r}")
        self._keep = None if keep is None else tuple(keep)
        self._drop = tuple(drop or ())
        self._filter = iceberg_filter(filter, name)
        self._filter_fields = fields_of_filter(filter)
        self._snapshot_id = snapshot_id
        self._timestamp = timestamp
        self._streaming = streaming
        self._from_snapshot = from_snapshot
        self._skips_changes = skip_change_snapshots
        self._poll_interval = seconds_of_span(poll_interval_seconds)
        self._times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        label = pbegin.pipeline.full_label
        reading = Reading(self._catalog, self._table, label, (), self._filter)
        metadata = reading.reached(lambda: reading.load().metadata)
        snapshot_id = self._snapshot_id if self._timestamp is None else self._snapshot_at(metadata, label)
        schema = reading.reached(lambda: arrow_schema(schema_at(metadata, snapshot_id)))
        columns = tuple(name for name in schema.names if name not in self._drop) if self._keep is None else self._keep
        for name in sorted({*columns, *self._drop, *self._filter_fields} - {*schema.names}):
            raise SourceError(
                f"{label}: Iceberg table {self._table!r} has no column {name!r}; it has {', '.join(schema.names)}"
            )
        reading = Reading(self._catalog, self._table, label, columns, self._filter)
        source: Any = IcebergSource(reading, snapshot_id)
        if self._streaming:
            source = IcebergStream(reading, self._times, self._from_snapshot, self._skips_changes, self._poll_interval)
        kinds = dict(fields_of(schema))
        element_type = with_schema(Row, [(name, kinds[name]) for name in columns])
        rows: PCollection[Any] = pbegin | Read(source).with_output_types(element_type)
        return rows

    def _snapshot_at(self, metadata: Any, label: str) -> int:
        assert self._timestamp is not None
        milliseconds = int(self._timestamp.timestamp() * 1000)
        before = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= milliseconds]
        if not before:
            raise SourceError(f"{label}: Iceberg table {self._table!r} had no snapshot at {self._timestamp}")
        return int(before[-1].snapshot_id)

    def display_data(self) -> dict[str, Any]:
        shown = {"table": self._table, "catalog": self._catalog.name}
        if self._filter is not None:
            shown["filter"] = str(self._filter)
        return shown
