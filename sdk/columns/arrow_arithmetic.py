"""Arithmetic of Arrow arrays with the meaning of Python's operators, where Arrow's functions have another."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..errors import ColumnError


@lru_cache(256)
def scalar_of(value: int) -> Any:
    """Return a constant as an Arrow scalar, which functions needn't convert for each bundle.

    Raises `OverflowError` for one of more than 64 bits.
    """
    import pyarrow

    return pyarrow.scalar(value)


def quotient(left: Any, right: Any) -> Any:
    """Return the true quotient."""
    from pyarrow import compute

    return compute.divide_checked(*(compute.cast(each, "float64", safe=False) for each in (left, right)))


def floored_quotient(left: Any, right: Any) -> Any:
    """Return the quotient, rounded down.  Raises `ColumnError` for a division by 0."""
    return _rounding_down("floor_divide", left, right)


def remainder(left: Any, right: Any) -> Any:
    """Return the remainder, which has the sign of the divisor.  Raises `ColumnError` for a division by 0."""
    return _rounding_down("remainder", left, right)


def _rounding_down(function: str, left: Any, right: Any) -> Any:
    """Compute by NumPy what Arrow doesn't have: its quotient of integers is cut towards zero."""
    import numpy
    import pyarrow
    from pyarrow import compute

    divisor = right.as_py() if isinstance(right, pyarrow.Scalar) else right
    is_long = isinstance(left, pyarrow.Array) and left.type == pyarrow.int64()
    if is_long and type(divisor) is int and 0 < divisor < 1 << 63:
        return _divided(function, left, divisor)
    numbers = [_numbers(left), _numbers(right)]
    if (numpy.asarray(numbers[1]) == 0).any():
        raise ColumnError("a number is divided by 0")
    with numpy.errstate(over="raise"):
        found = pyarrow.array(getattr(numpy, function)(*numbers))
    for each in (left, right):
        if isinstance(each, pyarrow.Array) and each.null_count:
            found = compute.if_else(each.is_valid(), found, None)
    return found


def _divided(function: str, column: Any, divisor: int) -> Any:
    """Return the quotient or the remainder of 64-bit integers and a positive constant, in half the time of NumPy's."""
    import numpy
    import pyarrow
    from pyarrow import compute

    is_quotient = function == "floor_divide"
    if divisor & (divisor - 1) == 0:
        if is_quotient:
            return compute.shift_right(column, scalar_of(divisor.bit_length() - 1))
        return compute.bit_wise_and(column, scalar_of(divisor - 1))
    numbers = _numbers(column)
    # Arrow keeps memory for the next bundle, where NumPy returns it to the system.
    buffer = pyarrow.allocate_buffer(8 * len(numbers))
    found: Any = numpy.ndarray(len(numbers), numpy.int64, buffer)
    numpy.floor_divide(numbers, divisor, out=found)
    if not is_quotient:
        # If the product overflows, the difference has 64 bits all the same.
        numpy.multiply(found, divisor, out=found)
        numpy.subtract(numbers, found, out=found)
    divided = pyarrow.Array.from_buffers(pyarrow.int64(), len(numbers), [None, buffer])
    return compute.if_else(column.is_valid(), divided, None) if column.null_count else divided


def _numbers(values: Any) -> Any:
    """Return an Arrow array as one of NumPy, with 1 for nulls; constants as they are."""
    import pyarrow

    if not isinstance(values, pyarrow.Array):
        return values.as_py() if isinstance(values, pyarrow.Scalar) else values
    return (values.fill_null(1) if values.null_count else values).to_numpy(zero_copy_only=False)
