"""Types of columns of pandas, and Beam's types of their values.

| pandas | elements |
| --- | --- |
| `int8` to `int64`, `bool` | `numpy.int8` to `numpy.int64`, `bool` |
| `Int8` to `Int64`, `boolean`, `string` | `Optional` of `numpy.int8` to `numpy.int64`, of `bool`, of `str` |
| `float32`, `float64` | `Optional[numpy.float32]`, `Optional[numpy.float64]` |
| `bytes` | `bytes` |
| `object`, and all others | `Any` |
"""

from __future__ import annotations

from functools import cache
from typing import Any, Optional

from .native_types import convert_to_python_type


@cache
def _pairs() -> tuple[tuple[Any, Any], ...]:
    """Return the types of pandas by those of elements; of several pairs for a type of pandas the first one counts."""
    import numpy as np
    import pandas as pd  # type: ignore[import-untyped]

    sizes = (8, 16, 32, 64)
    numbers = [(np.dtype(f"int{size}"), getattr(np, f"int{size}")) for size in sizes]
    numbers += [(getattr(pd, f"Int{size}Dtype")(), Optional[getattr(np, f"int{size}")]) for size in sizes]  # noqa: UP045
    reals = [(np.dtype(real), kind) for real in (np.float32, np.float64) for kind in (Optional[real], real)]  # noqa: UP045
    return (
        *numbers,
        *reals,
        (np.dtype(bool), bool),
        (pd.BooleanDtype(), Optional[bool]),  # noqa: UP045
        (pd.StringDtype(), Optional[str]),  # noqa: UP045
        (pd.StringDtype(), str),
        (np.dtype(np.int64), int),
        (pd.Int64Dtype(), Optional[int]),  # noqa: UP045
        (np.dtype(np.float64), float),
        (np.dtype(np.float64), Optional[float]),  # noqa: UP045
        (np.dtype(bool), np.bool_),
        (np.dtype("S"), bytes),
    )


def dtype_from_typehint(typehint: Any) -> Any:
    """Return the type of pandas for values of a type; `object` for one that it has no type for.

    >>> dtype_from_typehint(str), dtype_from_typehint(list[int])
    (string[python], <class 'object'>)
    """
    typehint = convert_to_python_type(typehint)
    return next((dtype for dtype, kind in _pairs() if kind == typehint), object)


def dtype_to_fieldtype(dtype: Any) -> Any:
    """Return the type of the values of a type of pandas; `Any` if it isn't known.

    >>> import pandas
    >>> dtype_to_fieldtype(pandas.Int64Dtype())
    typing.Optional[numpy.int64]
    """
    if getattr(dtype, "kind", "") == "S":
        return bytes
    return next((kind for known, kind in _pairs() if known == dtype and type(known) is type(dtype)), Any)
