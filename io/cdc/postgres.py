"""ReadFromPostgresChanges: the rows of changing tables of PostgreSQL, from a replication slot."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import attrs

from ...sdk.elements.row import Row
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.runner import Capability
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.type_variables import OutputT, RowT
from ...sdk.typehints.describe import describe
from ...sdk.watermark_estimators import EstimatorTypes, MonotonicWatermarkEstimator
from ...transforms.par_do.map_and_filter import Map
from ...transforms.par_do.pardo import ParDo
from ...transforms.read import Read
from ...windowing.duration import DurationTypes, micros_of_span
from ..record_types import Maker, hint_of_type
from .postgres_rows import PostgresRows
from .postgres_server import PostgresServer
from .postgres_slot import ReplicationSlot
from .postgres_source import PostgresSource, Reading
from .row_change import OfRow, RowChange, SignedRows


class ReadFromPostgresChanges(PTransform[PBegin, OutputT]):
    """The rows of changing tables: each is an element from its insert on, and is retracted by its update or delete.

    Returns a `PCollection[Row]`, or of instances of `type`; of several tables a dict of them.

    So a pipeline behind it maintains its results as a database maintains a view.  First come the rows that the tables
    have when a slot is made, and then all changes behind it, in the order of their commits.  Positions are in the
    checkpoints, so every change counts once, and the slot is advanced when a checkpoint is durable.  Needs the extra
    `postgres`, PostgreSQL 14 or later with `wal_level=logical`, a role with REPLICATION, and tables with a primary key
    and REPLICA IDENTITY FULL.

    With the name of a table the result is a PCollection of its rows.  With several names it is a dict of PCollections,
    by name: the tables have one slot, so that their changes are in the order of the commits.

    On a batch runner, and with `bounded=True`, it reads the rows that the tables have, in one transaction, without a
    slot.

    Args:
      url: such as 'postgresql://user:password@host:5432/database', or settings as libpq takes them.
      table: the name of a table, or several names, with or without their schemas.
      slot: the name of the slot, which is made if it doesn't exist.  Without a checkpoint, a slot that exists is
        advanced to the end of the log, unless `snapshot` is False.
      publication: its name, by default that of the slot.  It is made if it doesn't exist.
      type: a NamedTuple, dataclass, attrs class or `msgspec.Struct` that rows are decoded to, or a dict of types by
        table.  Fields are then known when the pipeline is built.  Without it rows are `Row`s.
      snapshot: reads the rows that the tables have first; False for changes only.
      bounded: reads the rows that there are, and ends; None for True on a runner without unbounded sources.
      poll_interval: seconds between two looks for new changes.
      timestamp_fn: a function from a row to its event time.  Without it that is the time of the commit.  With it a row
        is retracted at the time at which it was added, as windows need it that aren't global.
      watermark_estimator, idle_after: see `EventTimes`.  Without them the watermark follows the commits, and the
        server's clock when there are none.

    Raises `MissingExtraError`, and `ValueError` for a URL that libpq can't read, while the pipeline is built;
    `SourceError` when the run starts if the server refuses or a table doesn't fit.  A server that is lost later is
    waited for.

    >>> import penstock as beam
    >>> url = "postgresql://ann:secret@localhost/shop"
    >>> beam.io.ReadFromPostgresChanges(url, "orders", "orders_slot").display_data()
    {'database': "database 'shop' at localhost:5432", 'tables': 'orders', 'slot': 'orders_slot'}
    """

    @overload
    def __init__(
        self: ReadFromPostgresChanges[PCollection[Row]],
        url: str,
        table: str,
        slot: str,
        publication: str | None = None,
        *,
        type: None = None,
        snapshot: bool = True,
        bounded: bool | None = None,
        poll_interval: DurationTypes = 0.2,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromPostgresChanges[PCollection[RowT]],
        url: str,
        table: str,
        slot: str,
        publication: str | None = None,
        *,
        type: type[RowT],
        snapshot: bool = True,
        bounded: bool | None = None,
        poll_interval: DurationTypes = 0.2,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromPostgresChanges[dict[str, PCollection[Any]]],
        url: str,
        table: Sequence[str],
        slot: str,
        publication: str | None = None,
        *,
        type: Any = None,
        snapshot: bool = True,
        bounded: bool | None = None,
        poll_interval: DurationTypes = 0.2,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None: ...
    def __init__(
        self,
        url: str,
        table: str | Sequence[str],
        slot: str,
        publication: str | None = None,
        *,
        type: Any = None,
        snapshot: bool = True,
        bounded: bool | None = None,
        poll_interval: DurationTypes = 0.2,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = self.__class__.__name__
        self._is_one = isinstance(table, str)
        tables = (table,) if isinstance(table, str) else tuple(table)
        if not tables or not all(isinstance(each, str) and each for each in tables) or len({*tables}) < len(tables):
            raise ValueError(f"{name}: expected the name of a table, or several different names, got {table!r}")
        _check_name(name, "slot", slot)
        _check_name(name, "publication", publication or slot)
        if micros_of_span(poll_interval) <= 0:
            raise ValueError(f"{name}: poll_interval must be more than 0 seconds, got {poll_interval!r}")
        types = type if isinstance(type, Mapping) else dict.fromkeys(tables, type)
        if unknown := [each for each in types if each not in tables]:
            raise ValueError(f"{name}: type has {unknown[0]!r}, which is none of the tables {', '.join(tables)}")
        self._types = [types.get(each) for each in tables]
        self._bounded = bounded
        monotonic = MonotonicWatermarkEstimator.default_provider()
        of_row = None if timestamp_fn is None else OfRow(timestamp_fn)
        times = EventTimes.of(name, of_row, watermark_estimator, idle_after, monotonic)
        self._reading = Reading(
            ReplicationSlot(PostgresServer.of(name, url), slot, publication or slot),
            tables,
            tuple(self._maker(name, kind) for kind in self._types),
            times,
            timestamp_fn is None and watermark_estimator is None,
            micros_of_span(poll_interval),
            snapshot,
        )

    @staticmethod
    def _maker(name: str, kind: Any) -> Maker:
        try:
            return Maker(kind)
        except (TypeError, NameError) as error:
            raise TypeError(f"{name}: rows can't have the type {describe(kind)}: {error}") from None

    def expand(self, pbegin: PBegin) -> Any:
        reading = copy.copy(self._reading)
        slot = reading.slot
        server = slot.server.labelled(pbegin.pipeline.full_label)
        reading = attrs.evolve(reading, slot=ReplicationSlot(server, slot.name, slot.publication))
        streams = pbegin.pipeline.runner.supports(Capability.UNBOUNDED_SOURCES)
        bounded = not streams if self._bounded is None else self._bounded
        source: Any = PostgresRows(reading) if bounded else PostgresSource(reading)
        changes: PCollection[RowChange] = pbegin | Read(source).with_output_types(RowChange)
        hints = [Row if kind is None else hint_of_type(kind) for kind in self._types]
        if self._is_one:
            return changes | "Sign" >> ParDo(SignedRows()).with_output_types(hints[0])
        names = reading.tables
        signed = changes | "Sign" >> ParDo(SignedRows(names)).with_outputs(*names)
        return {
            name: signed[name] | f"Rows of {name}" >> Map(_same).with_output_types(hint)
            for name, hint in zip(names, hints, strict=True)
        }

    def default_label(self) -> str:
        return "ReadFromPostgresChanges"

    def display_data(self) -> dict[str, Any]:
        reading = self._reading
        return {"database": reading.server.server, "tables": ", ".join(reading.tables), "slot": reading.slot.name}


def _same(row: Any) -> Any:
    return row


def _check_name(transform: str, what: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{transform}: expected the name of a {what}, got {name!r}")
    allowed = all(letter.islower() or letter.isdigit() or letter == "_" for letter in name) and name.isascii()
    if what == "slot" and not (allowed and len(name) < 64):
        raise ValueError(
            f"{transform}: slot {name!r} can't be the name of one: PostgreSQL takes lower-case letters, digits and "
            "underscores, at most 63"
        )
