"""TableValues: the rows of an Arrow table or a pandas DataFrame, as the values of `Create`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, overload

from ..coders.digest import digest_of
from ..columns.column_bundle import ColumnBundle, in_microseconds, rows_of_bundle
from ..columns.column_elements import as_rows
from ..elements.row import Row
from ..errors import ColumnError


class TableValues(Sequence[Row]):
    """The rows of a `pyarrow.Table` as `Row`s.

    >>> import pyarrow
    >>> values = TableValues(pyarrow.table({"name": ["Ada", "Bo"], "age": [36, 7]}))
    >>> len(values), values[1], list(values[:1])
    (2, Row(name='Bo', age=7), [Row(name='Ada', age=36)])
    """

    def __init__(self, table: Any) -> None:
        self._table = table

    @staticmethod
    def of(values: Any, label: str) -> TableValues | None:
        """Return a `pyarrow.Table`, a `pyarrow.RecordBatch` or a `pandas.DataFrame` as values; None for others.

        Raises `ColumnError` for a column whose values can't be an element's.
        """
        pyarrow, pandas = sys.modules.get("pyarrow"), sys.modules.get("pandas")
        if pandas is not None and isinstance(values, pandas.DataFrame):
            return TableValues(_checked(_table_of_frame(values, label), label))
        if pyarrow is not None and isinstance(values, pyarrow.RecordBatch):
            return TableValues(_checked(pyarrow.Table.from_batches([values]), label))
        if pyarrow is not None and isinstance(values, pyarrow.Table):
            return TableValues(_checked(values, label))
        return None

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of the columns."""
        return self._table.schema

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> TableValues: ...

    def __getitem__(self, index: int | slice) -> Row | TableValues:
        n = len(self)
        if isinstance(index, slice):
            start, stop, _ = index.indices(n)
            return TableValues(self._table.slice(start, max(stop - start, 0)))
        index = range(n)[index]
        (row,) = self[index : index + 1]
        return row

    def __iter__(self) -> Iterator[Row]:
        for bundle in self.bundles():
            yield from bundle.values

    def bundles(self) -> Iterator[ColumnBundle]:
        """Yield the rows as bundles."""
        size = rows_of_bundle(self._table.nbytes, len(self))
        for start in range(0, len(self), size):
            part = self._table.slice(start, size).combine_chunks()
            yield from (ColumnBundle(batch, as_rows) for batch in part.to_batches())

    def digest(self) -> str:
        """Return the number of rows and a digest, as `digest_of`."""
        named = [(name, digest_of(self._table[name].to_pylist())) for name in self._table.schema.names]
        return f"{len(self)} rows, {digest_of(named)}"

    def __reduce__(self) -> tuple[Any, ...]:
        # A stream of Arrow's IPC has the rows of a slice only.
        import pyarrow

        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, self._table.schema) as writer:
            writer.write_table(self._table)
        return _of_stream, (sink.getvalue().to_pybytes(),)


def _of_stream(stream: bytes) -> TableValues:
    import pyarrow

    return TableValues(pyarrow.ipc.open_stream(stream).read_all())


def _checked(table: Any, label: str) -> Any:
    """Return a table of types that elements can have.  Raises `ColumnError`."""
    names = table.schema.names
    for name in names:
        if names.count(name) > 1:
            raise ColumnError(f"{label}: two columns are called {name!r}; rename one of them")
    table = type(table).from_arrays([_column(table[name], name, label) for name in names], names=names)
    try:
        return in_microseconds(table)
    except ColumnError as error:
        raise ColumnError(f"{label}: {error}") from None


def _column(column: Any, name: str, label: str) -> Any:
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if not _is_supported(kind):
        raise ColumnError(
            f"{label}: column {name!r} has the type {kind}, which elements can't have; cast it to another one, or give "
            "the rows as a list"
        )
    return column


def _is_supported(kind: Any) -> bool:
    """Return True if Python has values for an Arrow type."""
    from pyarrow import types

    if types.is_nested(kind):
        is_known = types.is_struct(kind) or types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind)
        is_known = is_known or types.is_fixed_size_list(kind)
        return is_known and all(_is_supported(kind.field(i).type) for i in range(kind.num_fields))
    others = types.is_run_end_encoded(kind) or types.is_interval(kind) or types.is_dictionary(kind)
    return not (others or hasattr(kind, "extension_name"))


# pandas' `object` columns with values of other types would be converted to other values.
_OBJECTS = ["str", "bytes", "bool", "int", "float", "Decimal", "date", "datetime", "time", "timedelta", "list"]


def _table_of_frame(frame: Any, label: str) -> Any:
    import pyarrow

    columns = {}
    for name, series in frame.items():
        if not isinstance(name, str):
            raise ColumnError(f"{label}: expected columns of the DataFrame with a string as their name, got {name!r}")
        if name in columns:
            raise ColumnError(f"{label}: two columns are called {name!r}; rename one of them")
        if series.dtype == object:
            kinds = sorted({type(value).__name__ for value in series[series.notna()]})
            if len(kinds) > 1 or not set(kinds) <= set(_OBJECTS):
                raise ColumnError(
                    f"{label}: column {name!r} has values of the types {', '.join(kinds)}; expected values of one of "
                    f"the types {', '.join(_OBJECTS)}. Give the rows as a list"
                )
        try:
            # In a column of floats, NaN is a number.  In other columns pandas' missing values are None.
            is_float = getattr(series.dtype, "kind", "") == "f" and not hasattr(series.dtype, "na_value")
            columns[name] = pyarrow.array(series, from_pandas=not is_float)
        except (pyarrow.ArrowException, OverflowError) as error:
            raise ColumnError(f"{label}: column {name!r} can't be converted to Arrow's types: {error}") from None
    return pyarrow.table(columns)
