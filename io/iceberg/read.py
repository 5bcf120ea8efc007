"""ReadFromIceberg: the rows of an Iceberg table.  ReadFromIcebergChanges: its rows, and then their changes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ...frozen import frozen
from ...sdk.errors import SourceError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.watermark_estimators import EstimatorTypes
from ...windowing.duration import DurationTypes, seconds_of_span
from ..lakehouse.filters import fields_of_filter
from ..lakehouse.read import check_columns, rows_of, rows_of_changes, times_of_changes, times_of_rows
from .catalog import Catalog, package
from .changes import IcebergChanges
from .data_files import arrow_schema
from .filters import iceberg_filter
from .source import IcebergSource, Reading, schema_at
from .stream import IcebergStream
from .write import checked_name

if TYPE_CHECKING:
    from ...sdk.elements.row import Row  # noqa: F401 (in parameters of classes)


class ReadFromIceberg(PTransform[PBegin, PCollection["Row"]]):
    """A Row for each row of an Iceberg table, as columns; or, with `streaming`, also for those that are added later.

    Returns a `PCollection[Row]`.

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
        self._chosen = _Chosen.of(name, table, Catalog(catalog_name, catalog_properties), filter, keep, drop)
        if snapshot_id is not None and timestamp is not None:
            raise ValueError(f"{name}: snapshot_id and timestamp exclude each other")
        if streaming and (snapshot_id is not None or timestamp is not None):
            raise ValueError(f"{name}: with streaming=True give from_snapshot instead of a snapshot or a timestamp")
        self._times = times_of_rows(
            name,
            streaming,
            timestamp_fn,
            watermark_estimator,
            idle_after,
            from_snapshot=from_snapshot,
            skip_change_snapshots=skip_change_snapshots,
        )
        if timestamp is not None and (not isinstance(timestamp, datetime.datetime) or timestamp.tzinfo is None):
            raise ValueError(f"{name}: timestamp must be a datetime with a time zone; got {timestamp!r}")
        self._snapshot_id = snapshot_id
        self._timestamp = timestamp
        self._streaming = streaming
        self._from_snapshot = from_snapshot
        self._skips_changes = skip_change_snapshots
        self._poll_interval = seconds_of_span(poll_interval_seconds)

    def expand(self, pbegin: PBegin) -> Any:
        reading, schema, snapshot_id = self._chosen.reading(
            pbegin.pipeline.full_label, self._snapshot_id, self._timestamp
        )
        source: Any = IcebergSource(reading, snapshot_id)
        if self._streaming:
            source = IcebergStream(reading, self._times, self._from_snapshot, self._poll_interval, self._skips_changes)
        return rows_of(pbegin, source, schema, reading.columns)

    def display_data(self) -> dict[str, Any]:
        return self._chosen.display_data()


class ReadFromIcebergChanges(PTransform[PBegin, PCollection["Row"]]):
    """The rows of a changing Iceberg table: each is an element until a snapshot removes it, which retracts it.

    Returns a `PCollection[Row]`.

    So a pipeline behind it maintains its results as a database maintains a view.  First come the rows of the last
    snapshot, and then the changes of each later one: the difference between the rows of the files that it removes and
    of those that it adds.  Needs the extra `iceberg`, and a table of format version 2.

    The event time of a row is that of the snapshot which adds or removes it.

    Args:
      table, catalog_name, catalog_properties, keep, drop, poll_interval_seconds: as those of `ReadFromIceberg`.
      filter: as that of `ReadFromIceberg`; an update may add a row to those that it is true for, or remove it from
        them.
      from_snapshot: the first snapshot whose changes are read, without the rows before.
      timestamp_fn: a function from a row to its event time.  A row is then retracted at the time at which it was added,
        as windows need it that aren't global.
      watermark_estimator, idle_after: see `EventTimes`.  By default the watermark follows the snapshots.

    Raises `MissingExtraError`, and `SourceError` while the pipeline is built if the table is missing or has no such
    column.

    >>> import penstock as beam
    >>> read = beam.io.ReadFromIcebergChanges("shop.sales", catalog_properties={"warehouse": "lake"})
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
        from_snapshot: int | None = None,
        poll_interval_seconds: DurationTypes = 1.0,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self._chosen = _Chosen.of(name, table, Catalog(catalog_name, catalog_properties), filter, keep, drop)
        self._from_snapshot = from_snapshot
        self._poll_interval = seconds_of_span(poll_interval_seconds)
        self._times = times_of_changes(name, timestamp_fn, watermark_estimator, idle_after)

    def expand(self, pbegin: PBegin) -> Any:
        reading, schema, _ = self._chosen.reading(pbegin.pipeline.full_label, None, None)
        source = IcebergChanges(reading, self._times, self._from_snapshot, self._poll_interval)
        return rows_of_changes(pbegin, source, schema, reading.columns)

    def display_data(self) -> dict[str, Any]:
        return self._chosen.display_data()


@frozen
class _Chosen:
    """The table, and the columns and rows of it that are read.

    Attributes:
      fields: the names of the fields of the filter, as far as they are known.
    """

    table: str
    catalog: Catalog
    filter: Any
    fields: frozenset[str]
    keep: tuple[str, ...] | None
    drop: tuple[str, ...]

    @staticmethod
    def of(
        transform: str,
        table: str,
        catalog: Catalog,
        filter: Any,
        keep: Sequence[str] | None,
        drop: Sequence[str] | None,
    ) -> _Chosen:
        """Return what the arguments of a transform choose.  Raises `MissingExtraError`."""
        for module in ("pyiceberg", "pyarrow"):
            package(transform, module)
        name = checked_name(table, transform)
        if keep is not None and drop is not None:
            raise ValueError(f"{transform}: keep and drop exclude each other")
        kept = None if keep is None else tuple(keep)
        converted, fields = iceberg_filter(filter, transform), frozenset(fields_of_filter(filter))
        return _Chosen(name, catalog, converted, fields, kept, tuple(drop or ()))

    def reading(
        self, label: str, snapshot_id: int | None, moment: datetime.datetime | None
    ) -> tuple[Reading, Any, int | None]:
        """Return how the rows are read, the `pyarrow.Schema` of the table, and the snapshot at the moment.

        Raises `SourceError` for a column that the table doesn't have.
        """
        unknown = Reading(self.catalog, self.table, label, (), self.filter)
        metadata = unknown.reached(lambda: unknown.load().metadata)
        if moment is not None:
            snapshot_id = self._snapshot_at(metadata, moment, label)
        schema = unknown.reached(lambda: arrow_schema(schema_at(metadata, snapshot_id)))
        columns = tuple(name for name in schema.names if name not in self.drop) if self.keep is None else self.keep
        check_columns(label, f"Iceberg table {self.table!r}", schema, {*columns, *self.drop, *self.fields})
        return attrs.evolve(unknown, columns=columns), schema, snapshot_id

    def _snapshot_at(self, metadata: Any, moment: datetime.datetime, label: str) -> int:
        milliseconds = int(moment.timestamp() * 1000)
        before = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= milliseconds]
        if not before:
            raise SourceError(f"{label}: Iceberg table {self.table!r} had no snapshot at {moment}")
        return int(before[-1].snapshot_id)

    def display_data(self) -> dict[str, Any]:
        """Return what a drawing of the pipeline shows."""
        shown = {"table": self.table, "catalog": self.catalog.name}
        if self.filter is not None:
            shown["filter"] = str(self.filter)
        return shown
