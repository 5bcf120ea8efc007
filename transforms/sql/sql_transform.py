"""SqlTransform: a query as a transform, evaluated for each row by itself or for each window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from ...frozen import frozen
from ...sdk.columns.column_bundle import ColumnBundle
from ...sdk.columns.column_elements import Pairs, as_rows, as_values
from ...sdk.columns.column_groups import Lists
from ...sdk.columns.expressions import Column, OfFields, Projection, ValueColumns, field_of, given
from ...sdk.columns.nested_values import is_converted, python_values
from ...sdk.dofn.dofn import ColumnDoFn, DoFn, MapDoFn
from ...sdk.errors import PipelineError, TypeHintError, UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.typehints import describe
from ...sdk.typehints.arrow_schema import partial_schema_of
from ...sdk.typehints.column_types import fields_of
from ...sdk.typehints.schema import with_schema
from ...triggers import AccumulationMode, DefaultTrigger
from ..create import Create
from ..flatten import Flatten
from ..group_by_key import GroupByKey
from ..groups.co_group_by_key import tagging
from ..groups.group_by import NamedTuples
from ..groups.keys import Keying
from ..par_do.pardo import ParDo
from .query import Query, conformed, planned, rows_of_elements

if TYPE_CHECKING:
    from ...sdk.elements.row import Row  # noqa: F401 (in parameters of classes)

# Elements that are converted to columns together.
_CHUNK = 10_000


class SqlTransform(PTransform[Any, PCollection["Row"]]):
    """The rows of a SQL query over the elements of one or several PCollections, as named tuples.

    Elements are rows: Rows, named tuples, dataclasses, attrs classes, `msgspec.Struct`s or dicts whose fields are known
    when the pipeline is built.  One PCollection is the table `PCOLLECTION`; those of a dict have the names of its keys,
    and those of a tuple the names of their tags or else their indices, `"0"` and `"1"`.  A pipeline on the left has no
    tables.

    The query is one SELECT in DuckDB's dialect.  It is evaluated for each row by itself if each row of the result
    depends on one row of the input: results have the row's timestamp and windows.  Any other query, with aggregates,
    joins, DISTINCT, ORDER BY, LIMIT or subqueries, is evaluated for each window by itself, when the window is complete:
    results have the timestamps that a GroupByKey gives.  The rows of a window are in the memory of one worker then.

    Args:
      query: the query.
      dialect: None or "calcite", as in Beam; the dialect is DuckDB's in any case.
      ddl: not supported; None.
      expansion_service: Beam's, without effect.

    Raises `PipelineError`, when the pipeline is built, for a query that DuckDB refuses, `TypeHintError` for elements
    whose fields aren't known, and `MissingExtraError` without the extra `sql-transform`.

    >>> import penstock as beam
    >>> from penstock.transforms.sql import SqlTransform
    >>> from typing import NamedTuple
    >>> class Sale(NamedTuple):
    ...     item: str
    ...     cups: int
    >>> sales = [Sale("tea", 2), Sale("milk", 1), Sale("tea", 1)]
    >>> totals_of_items = SqlTransform("SELECT item, SUM(cups) AS total FROM PCOLLECTION GROUP BY item")
    >>> with beam.Pipeline() as p:
    ...     totals = p | beam.Create(sales) | totals_of_items
    ...     _ = totals | beam.Filter(beam.col("total") > 1) | beam.Map(print)
    Result(item='tea', total=3)
    """

    def __init__(
        self, query: str, dialect: str | None = None, ddl: str | None = None, expansion_service: Any = None
    ) -> None:
        super().__init__()
        if not isinstance(query, str):
            raise TypeError(f"SqlTransform: expected a query as a str, got {query!r}")
        if dialect is not None and dialect.lower() != "calcite":
            raise UnsupportedError(
                f"SqlTransform: dialect={dialect!r} isn't supported; queries are in DuckDB's dialect"
            )
        if ddl is not None:
            raise UnsupportedError(f"SqlTransform: ddl={ddl!r:.60} isn't supported; give the tables as PCollections")
        self.query = query

    def expand(self, inputs: Any) -> Any:
        if isinstance(inputs, PBegin):
            single = inputs | "Impulse" >> Create([0])
            query = planned(self.query, {}, single.pipeline.full_label)
            return self._evaluated(single | "Key" >> ParDo(MapDoFn(lambda v: (v, []))), query)
        pcolls = _by_name(inputs, self.label)
        label = next(iter(pcolls.values())).pipeline.full_label
        found = {name: _schema(pcoll, name, label) for name, pcoll in pcolls.items()}
        query = planned(self.query, {name: schema for name, (schema, _) in found.items()}, label)
        for name, (_, unknown) in found.items():
            for field in unknown.keys() & query.used:
                raise TypeHintError(f"{label}: {name}: {unknown[field]}")
        for pcoll in pcolls.values():
            if pcoll.retracted_by:
                raise UnsupportedError(f"{label}: {pcoll.retracted_by} may retract its input, which SQL can't")
        if query.text_by_row is not None:
            ((name, pcoll),) = pcolls.items()
            rows = RowQuery(query, [field_of(field) for field in query.tables[name].names if field in query.used])
            return pcoll | "Query" >> ParDo(ColumnDoFn(rows, "Query")).with_output_types(_hint(query))
        for pcoll in pcolls.values():
            _check_windowing(pcoll, len(pcolls), label)
        query = _reading(query)
        keyed = [
            _keyed(pcoll, name, query.tables[name]) | f"Tag[{name}]" >> ParDo(tagging(i))
            for i, (name, pcoll) in enumerate(pcolls.items())
        ]
        return self._evaluated(keyed | Flatten() | GroupByKey(), query)

    def _evaluated(self, groups: PCollection[Any], query: Query) -> PCollection[Any]:
        return groups | "Query" >> ParDo(_OfGroups(query)).with_output_types(_hint(query))


def _by_name(inputs: Any, label: str) -> dict[str, PCollection[Any]]:
    """Return the PCollections by the names of their tables."""
    if isinstance(inputs, PCollection):
        return {"PCOLLECTION": inputs}
    if isinstance(inputs, Mapping):
        pcolls = {str(tag): pcoll for tag, pcoll in inputs.items()}
    else:
        listed = list(inputs)
        pcolls = {getattr(pcoll, "tag", None) or str(i): pcoll for i, pcoll in enumerate(listed)}
        if len(pcolls) < len(listed):
            pcolls = {str(i): pcoll for i, pcoll in enumerate(listed)}
    for name, pcoll in pcolls.items():
        if not isinstance(pcoll, PCollection):
            raise PipelineError(f"{label}: expected PCollections, got {pcoll!r} for {name!r}")
    if not pcolls:
        raise PipelineError(f"{label}: expected PCollections, got none")
    return pcolls


def _schema(pcoll: PCollection[Any], name: str, label: str) -> tuple[Any, dict[str, str]]:
    """Return the `pyarrow.Schema` of the elements; and by the names of fields without a type, why they have none.

    Raises `TypeHintError` if no field is known.
    """
    schema, unknown = partial_schema_of(pcoll.hint)
    if schema is None:
        raise TypeHintError(
            f"{label}: {name}: the fields of {pcoll.producer_label}'s elements, or their types, aren't known: "
            f"the type is {describe(pcoll.hint)}; declare a class with typed fields by with_output_types"
        )
    return schema, unknown


def _check_windowing(pcoll: PCollection[Any], n: int, label: str) -> None:
    """Raise `UnsupportedError` if the rows of a window may be given twice, or those of several tables apart."""
    windowing = pcoll.windowing
    advice = "put WindowInto with the trigger behind it"
    if windowing.accumulation_mode is not AccumulationMode.DISCARDING:
        mode = windowing.accumulation_mode.name
        raise UnsupportedError(
            f"{label}: the windows of {pcoll.producer_label} are {mode}; a query over all rows of a window "
            f"needs DISCARDING: {advice}"
        )
    if n > 1 and not isinstance(windowing.trigger, DefaultTrigger):
        raise UnsupportedError(
            f"{label}: the windows of {pcoll.producer_label} have the trigger {windowing.trigger!r}; a query over "
            f"several tables needs the default trigger: {advice}"
        )


def _reading(query: Query) -> Query:
    """Return the query over tables with the columns only that it reads, or the first."""
    import pyarrow

    tables = {}
    for name, schema in query.tables.items():
        tables[name] = pyarrow.schema([field for field in schema if field.name in query.used] or [schema.field(0)])
    return attrs.evolve(query, tables=tables)


def _hint(query: Query) -> Any:
    return with_schema(Any, fields_of(query.schema))


def _elements(query: Query) -> NamedTuples:
    return NamedTuples("Result", tuple(query.schema.names))


def _results(bundle: ColumnBundle, batch: Any, query: Query) -> ColumnBundle:
    """Return a bundle with the rows of a result as its elements."""
    elements = _elements(query)
    found = bundle.with_batch(batch, elements)
    converted = [field.name for field in batch.schema if is_converted(field.type)]
    return given(found, elements(_values(batch)), converted) if converted else found


def _values(batch: Any) -> ValueColumns:
    """Return the columns of a result as Python's values: of maps, dicts."""
    return ValueColumns(batch.schema.names, list(map(python_values, batch.columns)), batch.num_rows)


def _keyed(pcoll: PCollection[Any], name: str, schema: Any) -> PCollection[Any]:
    """Return pairs of one key and the elements, which are columns of the schema's fields if these aren't nested."""
    from pyarrow import types

    if not any(map(types.is_nested, schema.types)):
        projection = Projection(tuple((field, field_of(field)) for field in schema.names), as_rows)
        pcoll = pcoll | f"Columns[{name}]" >> ParDo(ColumnDoFn(projection, "Columns"))
    return pcoll | f"Key[{name}]" >> ParDo(_keying())


def _keying() -> DoFn:
    import pyarrow

    dofn = MapDoFn(lambda v: (0, v))
    dofn.column_operation = Keying([Column(pyarrow.scalar, (0,), "0")], as_values, is_needed=False)
    return dofn


@frozen(eq=False)
class RowQuery(OfFields):
    """Operation on columns: the rows of a query that is evaluated for each row by itself."""

    query: Query
    columns: list[Column]
    makes_elements = True

    def apply(self, bundle: ColumnBundle) -> ColumnBundle:
        """Return the bundle after this operation.  Raises `ColumnError`, and the errors of DuckDB."""
        (name,) = self.query.tables
        batch, row_numbers = self.query.result_by_row(self.query.rows_of(name, bundle))
        return _results(bundle.taken(row_numbers), batch, self.query)


class _OfGroups(DoFn):
    """Evaluates a query over the tagged rows of one window."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.column_operation = GroupQuery(query)

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        names = list(self.query.tables)
        batches: dict[str, list[Any]] = {name: [] for name in names}
        for chunk in _chunks(element[1]):
            for i, name in enumerate(names):
                rows = [row for tag, row in chunk if tag == i]
                batches[name].append(rows_of_elements(rows, self.query.tables[name]))
        return _elements(self.query)(_values(self.query.result(_tables(batches, self.query))))


def _chunks(elements: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(elements)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _tables(batches: dict[str, list[Any]], query: Query) -> dict[str, Any]:
    import pyarrow

    return {name: pyarrow.Table.from_batches(batches[name], schema) for name, schema in query.tables.items()}


@frozen(eq=False)
class GroupQuery:
    """Operation on columns: the rows of a query for each group of tagged rows."""

    query: Query
    takes_records = False
    is_needed = False

    def takes(self, bundle: ColumnBundle) -> bool:
        """Return True if it can be applied to the columns of a bundle."""
        elements = bundle.elements
        return not bundle.has_elements and isinstance(elements, Pairs) and isinstance(elements.values, Lists)

    def apply(self, bundle: ColumnBundle) -> ColumnBundle:
        """Return the bundle after this operation.  Raises `ColumnError`, and the errors of DuckDB."""
        import numpy
        import pyarrow

        results = [self.query.result(tables) for tables in self._groups(bundle)]
        row_numbers = numpy.repeat(numpy.arange(len(results)), [len(result) for result in results])
        return _results(bundle.taken(row_numbers), pyarrow.concat_batches(results), self.query)

    def _groups(self, bundle: ColumnBundle) -> Iterator[dict[str, Any]]:
        """Yield the tables of each group."""
        import pyarrow

        names = list(self.query.tables)
        pairs: Any = bundle.elements
        values = pairs.values_of(bundle.batch)
        for i in range(len(bundle)):
            batches: dict[str, list[Any]] = {name: [] for name in names}
            for column, tagged in zip(values.columns, pairs.values.elements, strict=True):
                name = names[tagged.tag]
                rows = pyarrow.RecordBatch.from_struct_array(column[i].values)
                batches[name].append(conformed(rows, self.query.tables[name]))
            yield _tables(batches, self.query)
