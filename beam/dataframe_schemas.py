"""Rows as frames of pandas, and the reverse: as elements, and as the proxies that tell the types of columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from ..frozen import frozen
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PCollection
from ..transforms import BatchElements, FlatMap, Map
from .typehints.pandas_types import dtype_from_typehint, dtype_to_fieldtype
from .typehints.row_type import RowTypeConstraint
from .typehints.schemas import named_fields_from_element_type
from .typehints.subscripts import normalize

# The note on a field that is a level of the index.
INDEX = "beam:dataframe:index"


def generate_proxy(element_type: Any) -> Any:
    """Return an empty frame with the columns of rows of a type, or an empty series for another type.

    Raises `TypeError` if the fields of the type aren't known.

    >>> from typing import NamedTuple
    >>> class Animal(NamedTuple):
    ...     name: str
    ...     speed: float
    >>> generate_proxy(Animal).dtypes.to_dict()
    {'name': string[python], 'speed': dtype('float64')}
    """
    import pandas as pd  # type: ignore[import-untyped]

    dtype = dtype_from_typehint(element_type)
    if dtype is not object:
        return pd.Series(dtype=dtype)
    fields = named_fields_from_element_type(element_type)
    proxy = pd.DataFrame(columns=[name for name, _ in fields])
    for name, kind in fields:
        proxy[name] = proxy[name].astype(dtype_from_typehint(kind))
    return proxy


def element_type_from_dataframe(proxy: Any, include_indexes: bool = False) -> Any:
    """Return a class of rows with the columns of a frame, and the levels of its index before them.

    Raises `ValueError` for an index without a name, or with the name of another column.

    >>> import pandas
    >>> element_type_from_dataframe(pandas.DataFrame({"cups": [2]})).__annotations__
    {'cups': <class 'numpy.int64'>}
    """
    return element_typehint_from_dataframe_proxy(proxy, include_indexes).user_type


def element_typehint_from_dataframe_proxy(proxy: Any, include_indexes: bool = False) -> RowTypeConstraint:
    """Return the type of rows with the columns of a frame, as `element_type_from_dataframe`."""
    columns = [(str(name), dtype) for name, dtype in proxy.dtypes.items()]
    index = _index_of(proxy) if include_indexes else []
    fields = [(name, dtype_to_fieldtype(dtype)) for name, dtype in [*index, *columns]]
    return RowTypeConstraint.from_fields(fields, field_options={name: [(INDEX, None)] for name, _ in index})


def _index_of(proxy: Any) -> list[tuple[str, Any]]:
    names = list(proxy.index.names)
    for i, name in enumerate(names):
        if name is None:
            raise ValueError("include_indexes=True: the frame has an unnamed index; give all levels a name")
        if name in names[:i]:
            raise ValueError(f"include_indexes=True: the frame has several levels of the index named {name!r}")
        if name in proxy.columns:
            raise ValueError(f"include_indexes=True: the frame has an index and a column named {name!r}")
    return [(str(name), proxy.index.get_level_values(i).dtype) for i, name in enumerate(names)]


@frozen
class _FrameOf:
    """A list of rows as a frame."""

    names: tuple[str, ...]
    dtypes: tuple[Any, ...]

    def __call__(self, rows: Sequence[Any]) -> Any:
        import pandas as pd

        columns = {
            name: pd.Series([getattr(row, name) for row in rows], dtype=dtype)
            for name, dtype in zip(self.names, self.dtypes)
        }
        return pd.DataFrame(columns, columns=list(self.names))


class BatchRowsAsDataFrame(PTransform):
    """Batches rows to frames of pandas.

    Args:
      args, kwargs: of `BatchElements`.
      proxy: an empty frame with the columns and their types; by default those of the rows' fields.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     rows = p | beam.Create([beam.Row(item="tea", cups=2), beam.Row(item="milk", cups=1)])
    ...     _ = rows | BatchRowsAsDataFrame(min_batch_size=2) | beam.Map(lambda df: df.cups.sum()) | beam.Map(print)
    3
    """

    def __init__(self, *args: Any, proxy: Any = None, **kwargs: Any) -> None:
        super().__init__()
        self.batch_elements = BatchElements(*args, **kwargs)
        self.proxy = proxy

    def expand(self, pcoll: PCollection[Any]) -> Any:
        import pandas as pd

        proxy = generate_proxy(pcoll.hint) if self.proxy is None else self.proxy
        to_frame = _FrameOf(tuple(map(str, proxy.columns)), tuple(proxy.dtypes))
        return pcoll | self.batch_elements | "Frame" >> Map(to_frame).with_output_types(pd.DataFrame)


@frozen
class _RowsOf:
    """The rows of a frame; those of the index before them."""

    row_type: RowTypeConstraint
    include_indexes: bool

    def __call__(self, frame: Any) -> Iterator[Any]:
        index = [frame.index.get_level_values(i) for i in range(frame.index.nlevels)] if self.include_indexes else []
        series = [*index, *(frame.iloc[:, i] for i in range(len(frame.columns)))]
        for values in zip(*map(_values, series)):
            yield self.row_type(*values)


def _values(series: Any) -> list[Any]:
    """Return the values of a series, with None for missing ones."""
    import pandas as pd

    return [None if missing else value for missing, value in zip(pd.isnull(series), series)]


class UnbatchPandas(PTransform):
    """Splits frames of pandas into rows, and series into values.

    Args:
      proxy: an empty frame or series, with the types of the columns.
      include_indexes: puts the levels of the index before the columns of a frame.

    Raises `TypeError` for another proxy, and `ValueError` for an index without a name of its own.

    >>> import pandas
    >>> import penstock as beam
    >>> frame = pandas.DataFrame({"cups": [2, 1]})
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([frame]) | UnbatchPandas(frame[:0]) | beam.Map(lambda row: row.cups) | beam.Map(print)
    2
    1
    """

    def __init__(self, proxy: Any, include_indexes: bool = False) -> None:
        super().__init__()
        self.proxy = proxy
        self.include_indexes = include_indexes

    def expand(self, pcoll: PCollection[Any]) -> Any:
        import pandas as pd

        if isinstance(self.proxy, pd.DataFrame):
            row_type = element_typehint_from_dataframe_proxy(self.proxy, self.include_indexes)
            return pcoll | FlatMap(_RowsOf(row_type, self.include_indexes)).with_output_types(row_type.user_type)
        if isinstance(self.proxy, pd.Series):
            if self.include_indexes:
                warnings.warn("UnbatchPandas: a series has no rows that its index could be in", stacklevel=2)
            kind = normalize(dtype_to_fieldtype(self.proxy.dtype))
            return pcoll | FlatMap(_values).with_output_types(kind)
        raise TypeError(f"UnbatchPandas: expected a frame or a series of pandas as proxy, got {type(self.proxy)}")
