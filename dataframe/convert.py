"""to_dataframe and to_pcollection: rows as frames, and frames as rows."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from typing import Any

from ..sdk.columns.column_elements import as_rows, as_values
from ..sdk.columns.expressions import Projection, field_of
from ..sdk.dofn.dofn import ColumnDoFn, DoFn
from ..sdk.elements.row import Row
from ..sdk.errors import TypeHintError
from ..sdk.pvalue import PCollection
from ..sdk.typehints import describe
from ..sdk.typehints.arrow_schema import schema_of
from ..sdk.typehints.column_types import fields_of, type_in
from ..sdk.typehints.schema import with_schema
from ..sdk.typehints.simplified import simplified
from ..transforms import Create, Map, ParDo
from ..transforms.groups.group_by import NamedTuples
from .frames import DeferredDataFrame, DeferredSeries, frame_of, index_of, parts_of
from .grouping import label_of, projected
from .pandas_rows import rows_of_pandas


def to_dataframe(pcoll: PCollection[Any], proxy: Any = None, label: str | None = None) -> Any:
    """Return the rows of a PCollection as a deferred frame, whose columns are their fields; numbers and texts as a
    deferred series.

    Args:
      pcoll: elements whose fields are known when the pipeline is built.
      proxy: if the elements are frames or series of pandas, an empty one of these. Its columns of the type `object`
        have texts. An index with names is that of the deferred frame.

    Raises `TypeHintError` for elements whose fields aren't known.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     df = to_dataframe(p | beam.Create([beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1)]))
    ...     df["double"] = df.cups * 2
    ...     _ = to_pcollection(df[df.double > 2]) | beam.Map(print)
    Result(item='tea', cups=2, double=4)
    """
    label = label or label_of(pcoll, "to_dataframe")
    if proxy is not None:
        return _of_pandas(pcoll, proxy, label)
    if (kind := simplified(pcoll.hint)) in (bool, int, float, str):
        values = pcoll | f"{label}/Rows" >> Map(_Value()).with_output_types(with_schema(Row, [("value", _ARROW[kind])]))
        return DeferredSeries(values, {}, None, field_of("value"))
    try:
        schema = schema_of(pcoll.hint)
    except TypeError as error:
        raise TypeHintError(f"{label}: {error}") from None
    if schema is None:
        raise TypeHintError(
            f"{label}: the fields of {pcoll.producer_label}'s elements, or their types, aren't known: the type is "
            f"{describe(pcoll.hint)}; declare a class with typed fields by with_output_types"
        )
    columns = {name: field_of(name) for name in schema.names}
    rows = pcoll | label >> ParDo(ColumnDoFn(Projection(tuple(columns.items()), as_rows), label)).with_output_types(
        with_schema(Row, fields_of(schema))
    )
    return frame_of(rows, schema.names)


class _Value:
    """A value as a row."""

    def __call__(self, value: Any) -> Row:
        return Row(value=value)


_ARROW = {bool: "bool", int: "int64", float: "double", str: "string"}


def _of_pandas(pcoll: PCollection[Any], proxy: Any, label: str) -> Any:
    """Return elements that are frames or series of pandas as a deferred one."""
    is_series = not hasattr(proxy, "columns")
    frame = proxy.to_frame("value") if is_series else proxy
    index = [name for name in frame.index.names if name is not None]
    if index and len(index) < frame.index.nlevels:
        raise ValueError(f"{label}: expected names for all levels of the index or for none, got {frame.index.names}")
    frame = frame.reset_index() if index else frame
    texts = [name for name, dtype in frame.dtypes.items() if dtype.kind == "O"]
    frame = frame.astype(dict.fromkeys(texts, "string"))
    frame = frame.set_index(index) if index else frame
    if is_series:
        pcoll = pcoll | f"{label}/Frames" >> Map(_to_frame)
    rows = pcoll | f"{label}/Rows" >> rows_of_pandas(frame, bool(index))
    columns = [str(name) for name in frame.columns]
    schema = schema_of(rows.hint)
    fields = {name: field_of(name) for name in [*index, *columns]}
    rows = rows | label >> ParDo(ColumnDoFn(Projection(tuple(fields.items()), as_rows), label)).with_output_types(
        with_schema(Row, fields_of(schema))
    )
    found = frame_of(rows, columns, index)
    return found["value"].rename(proxy.name) if is_series else found


def _to_frame(series: Any) -> Any:
    return series.to_frame("value")


def to_pcollection(
    *dataframes: Any,
    label: str | None = None,
    always_return_tuple: bool = False,
    yield_elements: str = "schemas",
    include_indexes: bool = False,
    pipeline: Any = None,
) -> Any:
    """Return the rows of frames as named tuples, and the values of series; a tuple for several.

    Args:
      dataframes: deferred frames and series, or frames of pandas.
      always_return_tuple: returns a tuple also for one frame.
      yield_elements: "schemas"; or "pandas" for elements that are frames or series of pandas, of some rows each, with
        their index.
      include_indexes: puts the index before the columns.
      pipeline: needed for frames of pandas.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     df = to_dataframe(p | beam.Create([beam.Row(item="tea", cups=2)]))
    ...     rows, cups = to_pcollection(df, df.cups)
    ...     _ = (rows, cups) | beam.Flatten() | beam.Map(print)
    Result(item='tea', cups=2)
    2
    """
    if yield_elements not in ("schemas", "pandas"):
        raise ValueError(f"to_pcollection: expected yield_elements='schemas' or 'pandas', got {yield_elements!r}")
    results = []
    for i, frame in enumerate(dataframes):
        if isinstance(frame, (DeferredDataFrame, DeferredSeries)):
            own = None if label is None else f"{label}" if len(dataframes) == 1 else f"{label}[{i}]"
            results.append(_rows(frame, own, yield_elements == "pandas", include_indexes))
        elif pipeline is not None and hasattr(frame, "columns"):
            results.append(pipeline | f"{label or 'to_pcollection'}[{i}]" >> Create(frame))
        elif pipeline is not None and hasattr(frame, "to_frame"):
            results.append(pipeline | f"{label or 'to_pcollection'}[{i}]" >> Create(list(frame)))
        else:
            raise TypeError(f"to_pcollection: expected deferred frames, or frames with pipeline=, got {type(frame)}")
    return results[0] if len(results) == 1 and not always_return_tuple else tuple(results)


def _rows(frame: Any, label: str | None, as_frames: bool, include_indexes: bool) -> Any:
    pcoll, columns = parts_of(frame, include_indexes)
    label = label or label_of(pcoll, "to_pcollection")
    if as_frames:
        is_series = isinstance(frame, DeferredSeries)
        _, columns = parts_of(frame.to_frame() if is_series else frame, include_indexes=True)
        rows = projected(pcoll, columns, f"{label}/Rows")
        to_pandas = _Frames(index_of(frame), is_series, frame.name if is_series else None)
        return rows | label >> ParDo(to_pandas)
    if isinstance(frame, DeferredSeries):
        ((_, column),) = columns.items()
        operation = Projection((("value", column),), as_values)
        kind = _PYTHON.get(str(type_in(column, pcoll.hint)), Any)
        return pcoll | label >> ParDo(ColumnDoFn(operation, label)).with_output_types(kind)
    names = tuple(columns)
    are_names = all(n.isidentifier() and not keyword.iskeyword(n) and not n.startswith("_") for n in names)
    operation = Projection(tuple(columns.items()), NamedTuples("Result", names) if are_names else as_rows)
    hint = with_schema(Any, [(name, type_in(column, pcoll.hint)) for name, column in columns.items()])
    return pcoll | label >> ParDo(ColumnDoFn(operation, label)).with_output_types(hint)


_PYTHON = {"int64": int, "double": float, "string": str, "bool": bool}


class _Frames(DoFn):
    """Frames or series of pandas as elements."""

    def __init__(self, index: tuple[str, ...], is_series: bool, name: str | None) -> None:
        self.index = list(index)
        self.is_series = is_series
        self.name = name

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        import pandas  # type: ignore[import-untyped]

        return pandas.DataFrame

    @DoFn.yields_elements
    def process_batch(self, batch: Any) -> Iterator[Any]:
        if self.index:
            batch = batch.set_index(self.index)
        yield batch.iloc[:, 0].rename(self.name) if self.is_series else batch
