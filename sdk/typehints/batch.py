"""Batch types: how a batched DoFn's elements become a batch, and a batch becomes elements.

The class of an annotation decides: `list`, `numpy.ndarray` (or `NumpyArray[dtype, shape]`), `pyarrow.RecordBatch`,
`pyarrow.Table`, `pyarrow.Array`, `pandas.DataFrame` and `pandas.Series`; and those that a program registers.  A package
is looked at only if the program has imported it.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import ceil
from typing import Any, ClassVar, TypeAlias, get_args

from ...frozen import frozen
from ...persistence import restores, stored_as
from ..errors import ColumnError, missing_extra
from .compatibility import is_compatible
from .describe import describe
from .simplified import class_and_args, simplified

# The dimension of a `NumpyArray` whose length is that of the batch.
N = "N"

# The elements that are pickled to estimate the size of a list.
_SAMPLE = 100


class BatchConverter:
    """Converts elements to a batch, and a batch to elements.

    Attributes:
      batch_type, element_type: hints.
      has_fields: True if a batch consists of columns with names, and elements have fields with these names.
    """

    has_fields = False
    # The name of a converter of penstock in checkpoints.
    stored_name: ClassVar[str] = ""

    def __init__(self, batch_type: Any, element_type: Any) -> None:
        self.batch_type = batch_type
        self.element_type = element_type

    # Of Beam

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        """Return elements as a batch."""
        raise NotImplementedError(f"{type(self).__name__}.produce_batch")

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        """Return the elements of a batch."""
        raise NotImplementedError(f"{type(self).__name__}.explode_batch")

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        """Return several batches as one."""
        return self.produce_batch(list(chain.from_iterable(map(self.explode_batch, batches))))

    def get_length(self, batch: Any) -> int:
        """Return the number of elements of a batch."""
        return len(batch)

    def estimate_byte_size(self, batch: Any) -> int:
        """Return the approximate size of a batch in bytes."""
        return int(batch.nbytes)

    @staticmethod
    def register(*, name: str) -> Callable[[Constructor], Constructor]:
        """Register a function `(element_type, batch_type)` that returns a converter, or None for other batch types.

        The function raises `TypeError` if elements of the type can't be in such batches.
        """

        def registered(constructor: Constructor) -> Constructor:
            _REGISTERED[name] = constructor
            return constructor

        return registered

    @staticmethod
    def from_typehints(*, element_type: Any, batch_type: Any) -> BatchConverter:
        """Return the converter of a batch type for elements of a type.

        Raises `TypeError` if there is none.

        >>> from penstock.typehints import List
        >>> BatchConverter.from_typehints(element_type=int, batch_type=List[int]).produce_batch((1, 2))
        [1, 2]
        """
        batch_type, element_type = simplified(batch_type), simplified(element_type)
        for constructor in _REGISTERED.values():
            converter = constructor(element_type, batch_type)
            if converter is not None:
                return converter
        raise TypeError(
            f"{describe(batch_type)} is no type of batches; expected list, numpy.ndarray, pyarrow.RecordBatch, "
            "pyarrow.Table, pyarrow.Array, pandas.DataFrame or pandas.Series"
        )

    # Of penstock

    def is_batch(self, batch: Any) -> bool:
        """Return True if an object is of the type of batches."""
        kind = class_and_args(self.batch_type)[0]
        return kind is None or isinstance(batch, kind)

    def part(self, batch: Any, start: int, stop: int) -> Any:
        """Return the elements from `start` up to `stop`."""
        return self.produce_batch(list(self.explode_batch(batch))[start:stop])

    def take(self, batch: Any, indices: Any) -> Any:
        """Return the elements at these places, a NumPy array of ints."""
        elements = list(self.explode_batch(batch))
        return self.produce_batch([elements[i] for i in indices.tolist()])

    def to_columns(self, batch: Any) -> Any:
        """Return a batch as a `pyarrow.RecordBatch`; of one column if elements have no fields.

        Raises `ColumnError` for values that Arrow would change.
        """
        raise ColumnError(f"a batch of the type {describe(self.batch_type)} has no columns")

    def of_columns(self, columns: Any) -> Any:
        """Return a `pyarrow.RecordBatch` as a batch, whatever type of batch it was made of."""
        return self.produce_batch(columns.column(0).to_pylist())

    def elements(self, columns: Any) -> list[Any]:
        """Return the elements of a `pyarrow.RecordBatch`."""
        return list(self.explode_batch(self.of_columns(columns)))

    def __reduce__(self) -> tuple[Any, ...]:
        name = vars(type(self)).get("stored_name")
        return (_restored, (name, vars(self))) if name else (copyreg.__newobj__, (type(self),), vars(self))  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (self.batch_type, self.element_type) == (
            other.batch_type,
            other.element_type,
        )

    def __hash__(self) -> int:
        return hash((self.batch_type, self.element_type))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe(self.batch_type)}, {describe(self.element_type)})"


@restores("batch-converter", 1)
def _restored(name: str, state: dict[str, Any]) -> BatchConverter:
    kinds, found = [BatchConverter], None
    for kind in kinds:
        kinds += kind.__subclasses__()
        if vars(kind).get("stored_name") == name:
            found = kind
    assert found is not None
    converter: BatchConverter = object.__new__(found)
    vars(converter).update(state)
    return converter


Constructor: TypeAlias = Callable[[Any, Any], BatchConverter | None]

_REGISTERED: dict[str, Constructor] = {}


def has_class(hint: Any, package: str, *names: str) -> bool:
    """Return True if a hint is one of these classes of a package, which is imported if it is."""
    kind, module = class_and_args(hint)[0], sys.modules.get(package)
    return kind is not None and module is not None and issubclass(kind, tuple(getattr(module, n) for n in names))


def mismatch(element_type: Any, batch_type: Any, expected: str) -> TypeError:
    """Return the error of a batch type that can't hold elements of a type."""
    return TypeError(
        f"a batch of the type {describe(batch_type)} can't hold elements of the type {describe(element_type)}; "
        f"expected {expected}"
    )


class ListBatchConverter(BatchConverter):
    """Batches that are lists."""

    stored_name = "list"

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        return list(elements)

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        return batch  # type: ignore[no-any-return]

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        return list(chain.from_iterable(batches))

    def estimate_byte_size(self, batch: Any) -> int:
        sample = batch[:_SAMPLE]
        return ceil(len(pickle.dumps(sample)) * len(batch) / len(sample)) if sample else 0


class NumpyBatchConverter(BatchConverter):
    """Batches that are NumPy arrays.

    Attributes:
      dtype: the type of the array's items; None if it depends on the elements.
      element_shape: the shape of an element, () for a number.
      partition_dimension: the dimension whose length is that of the batch.
    """

    stored_name = "numpy"

    def __init__(
        self, batch_type: Any, element_type: Any, dtype: Any, element_shape: tuple[int, ...] = (), axis: int = 0
    ) -> None:
        super().__init__(batch_type, element_type)
        self.dtype = dtype
        self.element_shape = element_shape
        self.partition_dimension = axis
        # Elements are NumPy's scalars only if the pipeline says so.
        self._keeps_scalars = _is_scalar_type(element_type)

    def produce_batch(self, elements: Sequence[Any]) -> Any:
        import numpy

        elements = list(elements)
        if self.dtype == object:
            return _objects(elements)
        array = numpy.array(elements)
        if array.dtype.kind in "US" and not _is_text(elements):
            # NumPy would turn numbers among strings into strings, and drop zeros at the end of one.
            array = _objects(elements)
        if array.dtype.kind == "f" and set(map(type, elements)) == {int}:
            # NumPy has floats for numbers above and below 2**63.
            array = numpy.array(elements, numpy.uint64) if min(elements) >= 0 else _objects(elements)
        return numpy.moveaxis(self._cast(array), 0, self.partition_dimension) if array.ndim else array

    def _cast(self, array: Any) -> Any:
        if self.dtype is None or array.dtype == self.dtype:
            return array
        cast = array.astype(self.dtype, casting="same_kind")
        if self.dtype.kind in "iu" and not (cast == array).all():
            raise OverflowError(f"an element doesn't fit in {self.dtype}")
        return cast

    def explode_batch(self, batch: Any) -> Iterable[Any]:
        import numpy

        if batch.ndim == 1 and not self._keeps_scalars:
            return batch.tolist()  # type: ignore[no-any-return]
        return list(numpy.moveaxis(batch, self.partition_dimension, 0))

    def combine_batches(self, batches: Sequence[Any]) -> Any:
        import numpy

        return numpy.concatenate(batches, axis=self.partition_dimension)

    def get_length(self, batch: Any) -> int:
        return int(batch.shape[self.partition_dimension])

    def is_batch(self, batch: Any) -> bool:
        import numpy

        # A single number has no dimension.
        return isinstance(batch, numpy.ndarray) and batch.ndim > self.partition_dimension

    def part(self, batch: Any, start: int, stop: int) -> Any:
        return batch[(slice(None),) * self.partition_dimension + (slice(start, stop),)]

    def take(self, batch: Any, indices: Any) -> Any:
        return batch.take(indices, axis=self.partition_dimension)

    def to_columns(self, batch: Any) -> Any:
        import numpy
        import pyarrow

        if batch.dtype.kind not in "biufMmU":
            raise ColumnError(f"an array of the type {batch.dtype} has no column")
        if batch.ndim == 1:
            return one_column(pyarrow.array(batch))
        rows = numpy.ascontiguousarray(numpy.moveaxis(batch, self.partition_dimension, 0))
        return one_column(pyarrow.FixedShapeTensorArray.from_numpy_ndarray(rows))

    def of_columns(self, columns: Any) -> Any:
        import numpy
        import pyarrow

        column = columns.column(0)
        if isinstance(column, pyarrow.FixedShapeTensorArray):
            return numpy.moveaxis(column.to_numpy_ndarray(), 0, self.partition_dimension)
        # Arrays of dates would have times, and of times no time zone.
        column = column.cast(pyarrow.date32()) if column.type == pyarrow.date64() else column
        has_zone = self.dtype is None and getattr(column.type, "tz", None) is not None
        array = None if column.null_count or has_zone else column.to_numpy(zero_copy_only=False)
        return self.produce_batch(column.to_pylist()) if array is None or array.dtype == object else self._cast(array)


def _objects(elements: list[Any]) -> Any:
    import numpy

    array = numpy.empty(len(elements), object)
    for i, element in enumerate(elements):
        array[i] = element
    return array


def _is_text(elements: list[Any]) -> bool:
    return set(map(type, elements)) == {str} and "\0" not in "".join(elements)


@stored_as("numpy-array-type", 1)
@frozen(repr=False)
class _NumpyArrayType:
    """`NumpyArray[dtype, shape]`."""

    dtype: Any
    shape: tuple[Any, ...]

    def __repr__(self) -> str:
        shape = "" if self.shape == (N,) else f", {self.shape!r}"
        return f"NumpyArray[{self.dtype}{shape}]"


class _NumpyArray:
    """`NumpyArray[dtype, shape]`: arrays of a type and shape, as batches with a dimension `N`, or as elements.

    >>> NumpyArray[int, (N, 3)], NumpyArray[float]
    (NumpyArray[int64, ('N', 3)], NumpyArray[float64])
    """

    def __getitem__(self, parameters: Any) -> Any:
        try:
            import numpy
        except ImportError as error:
            raise missing_extra("numpy", "parquet", "NumpyArray") from error
        dtype, shape = parameters if isinstance(parameters, tuple) else (parameters, (N,))
        return _NumpyArrayType(numpy.dtype(dtype), tuple(shape))


NumpyArray = _NumpyArray()


@BatchConverter.register(name="list")
def _of_lists(element_type: Any, batch_type: Any) -> BatchConverter | None:
    kind, args = class_and_args(batch_type)
    if kind is not list:
        return None
    if args and not is_compatible(element_type, args[0]):
        raise mismatch(element_type, batch_type, describe(args[0]))
    return ListBatchConverter(batch_type, args[0] if element_type is Any and args else element_type)


@BatchConverter.register(name="numpy")
def _of_arrays(element_type: Any, batch_type: Any) -> BatchConverter | None:
    is_array = isinstance(batch_type, _NumpyArrayType)
    if not is_array and not has_class(batch_type, "numpy", "ndarray"):
        return None

    dtype, shape = (batch_type.dtype, list(batch_type.shape)) if is_array else (_declared_dtype(batch_type), [N])
    if isinstance(element_type, _NumpyArrayType):
        own, own_shape = element_type.dtype, element_type.shape
        if not is_array:
            shape = [N, *own_shape]
    else:
        own, own_shape = _dtype_of(element_type), ()
    axis = shape.index(N) if shape.count(N) == 1 else -1
    if axis < 0:
        raise mismatch(element_type, batch_type, "a shape with one dimension N")
    element_shape = (*shape[:axis], *shape[axis + 1 :])
    is_known = element_type is not Any
    if is_known and dtype is not None and own != dtype:
        raise mismatch(element_type, batch_type, str(dtype))
    if is_known and element_shape != own_shape:
        raise mismatch(element_type, batch_type, f"NumpyArray[{dtype}, {element_shape}]")
    if not is_known and dtype is not None:
        scalar = {"i": int, "u": int, "f": float, "b": bool, "c": complex}.get(dtype.kind, Any)
        element_type = _NumpyArrayType(dtype, element_shape) if element_shape else scalar
    return NumpyBatchConverter(batch_type, element_type, own if dtype is None else dtype, element_shape, axis)


def _declared_dtype(batch_type: Any) -> Any:
    """Return the type of the items of a `numpy.typing.NDArray`; None for a plain ndarray."""
    import numpy

    args = get_args(batch_type)
    scalar = (get_args(args[1]) or (Any,))[0] if len(args) == 2 else Any
    return numpy.dtype(scalar) if _is_scalar_type(scalar) else None


def _dtype_of(element_type: Any) -> Any:
    """Return the type of an array's items for elements; None if it depends on them."""
    import numpy

    if element_type is Any or element_type is str:
        return None
    is_number = element_type in (int, float, bool, complex) or _is_scalar_type(element_type)
    return numpy.dtype(element_type) if is_number else numpy.dtype(object)


def _is_scalar_type(element_type: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(element_type, type) and issubclass(element_type, numpy.generic)


def one_column(array: Any) -> Any:
    """Return a `pyarrow.Array` as a record batch."""
    import pyarrow

    return pyarrow.RecordBatch.from_arrays([array], ["value"])
