"""Create and Impulse: PCollections of given values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Never, TypeVar, overload

from ..sdk import typehints
from ..sdk.elements.defensive_copy import defensive_copies
from ..sdk.elements.element_wrappers import unwrapped
from ..sdk.elements.row import Row
from ..sdk.ptransform import PTransform
from ..sdk.pvalue import PBegin, PCollection
from ..sdk.sources.bounded import ValuesSource
from ..sdk.sources.table_values import TableValues
from ..sdk.type_variables import A
from ..sdk.typehints.column_types import fields_of
from ..sdk.typehints.schema import with_schema
from .read import Read

if TYPE_CHECKING:
    from collections.abc import Mapping

    K = TypeVar("K")
    V = TypeVar("V")


class Create(PTransform[PBegin, PCollection[A]]):
    """The values of an iterable; `TimestampedValue`s among them get their timestamps.

    Returns a `PCollection[A]` for values of type A, and a `PCollection[tuple[K, V]]` for a mapping.

    `reshuffle` is Beam's and accepted; runners always distribute the values.

    The rows of a `pyarrow.Table`, a `pyarrow.RecordBatch` or a `pandas.DataFrame` are `Row`s, with Python's values and
    without the DataFrame's index.  Raises `ColumnError` for a column of another type.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create({"a": 1}) | beam.Map(print)
    ('a', 1)

    >>> import pyarrow
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create(pyarrow.table({"name": ["Ada"], "age": [36]})) | beam.Map(print)
    Row(name='Ada', age=36)
    """

    if TYPE_CHECKING:

        def _unwraps(self) -> None: ...

    # Only values of any type pass for `Never`.
    @overload
    def __init__(self: Create[Any], values: Never, reshuffle: bool = True) -> None: ...
    @overload
    def __init__(self: Create[tuple[K, V]], values: Mapping[K, V], reshuffle: bool = True) -> None: ...
    @overload
    def __init__(self, values: Iterable[A], reshuffle: bool = True) -> None: ...
    def __init__(self, values: Any, reshuffle: bool = True) -> None:
        super().__init__()
        if isinstance(values, (str, bytes)):
            raise TypeError(
                f"Create: expected values to iterate over, got {values!r}; did you mean Create([{values!r}])?"
            )
        if isinstance(values, dict):
            values = values.items()
        table = TableValues.of(values, "Create")
        # The program may change its own objects before the pipeline runs.
        given = list(values) if table is None else []
        self.values: Sequence[Any] = defensive_copies(given) if table is None else table
        self._are_immutable = self.values is given

    def infer_output_type(self, input_type: Any = None) -> Any:
        """Return the common type of the first hundred values, with those in `TimestampedValue`s unwrapped."""
        if isinstance(self.values, TableValues):
            return with_schema(Row, fields_of(self.values.schema))
        return typehints.infer_type([unwrapped(value)[0] for value in self.values[:100]])

    def expand(self, pbegin: PBegin) -> PCollection[A]:
        hint = self._output_hint if self._output_hint is not None else self.infer_output_type()
        values: PCollection[A] = pbegin | "Values" >> Read(
            ValuesSource(self.values, self._are_immutable)
        ).with_output_types(hint)
        return values


class Impulse(PTransform[PBegin, PCollection[bytes]]):
    """One element, `b""`, with the minimum timestamp.

    Returns a `PCollection[bytes]`.

    >>> import penstock as beam
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Impulse() | beam.Map(print)
    b''
    """

    def expand(self, pbegin: PBegin) -> PCollection[bytes]:
        values: PCollection[bytes] = pbegin | "Values" >> Read(ValuesSource([b""])).with_output_types(bytes)
        return values
