"""Functions of Arrow arrays that compute what pandas computes, where that differs from Python's operators on None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import SourceError
from .expressions import Column


def comparison(function: str, sign: str, left: Any, right: Any) -> Column:
    """Return a comparison, which is false for a missing value, and true for `!=`."""
    text = f"({_text(left)} {sign} {_text(right)})"
    return Column(_compared, (left, right, function), text)


def _compared(left: Any, right: Any, function: str) -> Any:
    import pyarrow.compute

    return pyarrow.compute.fill_null(getattr(pyarrow.compute, function)(left, right), function == "not_equal")


def division(left: Any, right: Any) -> Column:
    """Return the quotient, which is infinite or NaN for a divisor of 0."""
    return Column(_divided, (left, right), f"({_text(left)} / {_text(right)})")


def _divided(left: Any, right: Any) -> Any:
    import pyarrow.compute

    as_float = [pyarrow.compute.cast(_scalar(one), "double") for one in (left, right)]
    return pyarrow.compute.divide(*as_float)


def _scalar(value: Any) -> Any:
    import pyarrow

    return value if isinstance(value, (pyarrow.Array, pyarrow.ChunkedArray, pyarrow.Scalar)) else pyarrow.scalar(value)


def missing(column: Column) -> Column:
    """Return whether a value is None or NaN."""
    return Column(_is_missing, (column,), f"{_text(column)}.isna()")


def _is_missing(values: Any) -> Any:
    import pyarrow.compute

    return pyarrow.compute.is_null(values, nan_is_null=True)


def filled(column: Column, value: Any) -> Column:
    """Return the values, with another in the place of None and NaN."""
    return Column(_filled, (column, value), f"{_text(column)}.fillna({_text(value)})")


def _filled(values: Any, value: Any) -> Any:
    import pyarrow.compute

    return pyarrow.compute.if_else(_is_missing(values), value, values)


def constant(value: Any) -> Column:
    """Return a constant as an expression."""
    import pyarrow

    return Column(pyarrow.scalar, (value,), repr(value))


def chosen(mask: Column, value: Any, other: Any) -> Column:
    """Return one value where a mask is true, and another elsewhere."""
    return Column("if_else", (mask, value, other), f"where({_text(mask)}, {_text(value)}, {_text(other)})")


def isin(column: Column, values: Any) -> Column:
    """Return whether a value is one of these."""
    return filled(column.isin(list(values)), False)


def text_contains(column: Column, pattern: str, is_regex: bool, ignores_case: bool) -> Column:
    """Return whether text contains a pattern."""
    return Column(_contains, (column, pattern, is_regex, ignores_case), f"{_text(column)}.str.contains({pattern!r})")


def _contains(values: Any, pattern: str, is_regex: bool, ignores_case: bool) -> Any:
    import pyarrow.compute

    function = pyarrow.compute.match_substring_regex if is_regex else pyarrow.compute.match_substring
    return function(values, pattern, ignore_case=ignores_case)


def text_function(column: Column, name: str, *arguments: Any) -> Column:
    """Return the result of a function of `pyarrow.compute` for text."""
    return Column(_of_text, (column, name, *arguments), f"{_text(column)}.{name}")


def _of_text(values: Any, name: str, *arguments: Any) -> Any:
    import pyarrow.compute

    return getattr(pyarrow.compute, name)(values, *arguments)


def parsed(column: Column, kind: str, missing_values: tuple[str, ...], misfit: Callable[[], str]) -> Column:
    """Return text as values of a type, None for text that stands for a missing value.

    Args:
      misfit: says where text of another type is, for the `SourceError`.
    """
    return Column(_parsed, (column, kind, missing_values, misfit), column.text)


def _parsed(values: Any, kind: str, missing_values: tuple[str, ...], misfit: Callable[[], str]) -> Any:
    import pyarrow
    import pyarrow.compute

    is_missing = pyarrow.compute.is_in(values, value_set=pyarrow.array(missing_values))
    values = pyarrow.compute.if_else(is_missing, pyarrow.scalar(None, "string"), values)
    if kind == "string":
        return values.cast(kind)
    try:
        return pyarrow.compute.utf8_lower(pyarrow.compute.utf8_trim_whitespace(values)).cast(kind)
    except pyarrow.ArrowInvalid as error:
        raise SourceError(misfit()) from error


def _text(value: Any) -> str:
    return value.text if isinstance(value, Column) else repr(value)
