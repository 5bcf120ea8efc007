"""What transforms that read tables of a lakehouse have in common: their arguments, and the rows of their sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...sdk.elements.row import Row
from ...sdk.errors import SourceError
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.typehints.column_types import fields_of
from ...sdk.typehints.schema import with_schema
from ...sdk.watermark_estimators import EstimatorTypes, MonotonicWatermarkEstimator
from ...transforms.par_do.pardo import ParDo
from ...transforms.read import Read
from ..cdc.row_change import OfRow, RowChange, SignedRows
from .added_rows import AddedRowsSource


def check_columns(label: str, table: str, schema: Any, names: Iterable[str]) -> None:
    """Raise `SourceError` for a name that isn't one of the columns of a `pyarrow.Schema`.

    Args:
      table: the table in words, such as "Delta table 'words'".
    """
    for name in sorted({*names} - {*schema.names}):
        raise SourceError(f"{label}: {table} has no column {name!r}; it has {', '.join(schema.names)}")


def rows_of(pbegin: PBegin, source: Any, schema: Any, columns: Sequence[str]) -> PCollection[Any]:
    """Return the Rows of a source, with these columns."""
    rows: PCollection[Any] = pbegin | Read(source).with_output_types(_row_type(schema, columns))
    return rows


def rows_of_changes(pbegin: PBegin, source: AddedRowsSource, schema: Any, columns: Sequence[str]) -> PCollection[Any]:
    """Return the Rows that a source of changes adds and retracts, with these columns."""
    changes = pbegin | Read(source).with_output_types(RowChange)
    rows: PCollection[Any] = changes | "Sign" >> ParDo(SignedRows()).with_output_types(_row_type(schema, columns))
    return rows


def _row_type(schema: Any, columns: Sequence[str]) -> Any:
    kinds = dict(fields_of(schema))
    return with_schema(Row, [(name, kinds[name]) for name in columns])


def times_of_rows(
    transform: str,
    streaming: bool,
    timestamp_fn: Any,
    watermark_estimator: EstimatorTypes | None,
    idle_after: Any,
    **others: Any,
) -> EventTimes:
    """Return the event times for the arguments of a transform that reads rows.

    Raises `ValueError` for an argument that is given, of these or the others, and needs `streaming=True`.
    """
    times = {"timestamp_fn": timestamp_fn, "watermark_estimator": watermark_estimator, "idle_after": idle_after}
    for name, value in (others | times).items():
        if value is not None and value is not False and not streaming:
            raise ValueError(f"{transform}: {name} needs streaming=True")
    return EventTimes.of(transform, timestamp_fn, watermark_estimator, idle_after)


def times_of_changes(
    transform: str, timestamp_fn: Any, estimator: EstimatorTypes | None, idle_after: Any
) -> EventTimes:
    """Return the event times for the arguments of a transform that reads changes: by default those of the commits."""
    of_row = None if timestamp_fn is None else OfRow(timestamp_fn)
    return EventTimes.of(transform, of_row, estimator, idle_after, MonotonicWatermarkEstimator.default_provider())
