"""Filters by which files and rows are left out before they are read."""

from __future__ import annotations

from typing import Any

from ...sdk.columns.expressions import Column

# Functions of Arrow that skip files and rows of Parquet by their bounds, or are computed while a file is read.
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_ARITHMETIC = ("add_checked", "subtract_checked", "multiply_checked", "negate_checked", "abs_checked")
_KNOWN = (*_COMPARISONS, *_ARITHMETIC, "and_kleene", "or_kleene", "invert")


def arrow_filter(given: Any, transform: str) -> Any:
    """Return a filter as a `pyarrow.dataset.Expression`.

    Args:
      given: an expression of `col`, or one of `pyarrow.dataset`, or None.

    Raises `TypeError` for anything else, and for an expression that can't be computed while files are read.

    >>> from penstock import col
    >>> arrow_filter((col("n") > 1) & ~(col("word") == "a"), "Read")
    <pyarrow.compute.Expression ((n > 1) and invert((word == "a")))>
    """
    import pyarrow.compute

    if given is None or isinstance(given, pyarrow.compute.Expression):
        return given
    if not isinstance(given, Column):
        raise TypeError(
            f"{transform}: filter must be an expression such as beam.col('n') > 1, got {type(given).__name__}"
        )
    return _converted(given, given, transform)


def fields_of_filter(given: Any) -> set[str]:
    """Return the names of the fields of a filter of `col`; of other filters, none."""
    return given.fields if isinstance(given, Column) else set()


def _converted(part: Any, whole: Column, transform: str) -> Any:
    import pyarrow.compute as pc

    if not isinstance(part, Column):
        return pc.scalar(part)
    name, arguments = part.parts
    if name == "field":
        return pc.field(*arguments)
    if name == "is_in":
        return _converted(arguments[0], whole, transform).isin(arguments[1])
    if name == "is_null":
        return _converted(arguments[0], whole, transform).is_null()
    if name == "cast":
        return _converted(arguments[0], whole, transform).cast(arguments[1])
    if name not in _KNOWN:
        raise refused(part, whole, transform)
    return getattr(pc, name)(*(_converted(argument, whole, transform) for argument in arguments))


def refused(part: Column, whole: Column, transform: str) -> TypeError:
    """Return the error for an expression that can't be computed while files are read."""
    return TypeError(
        f"{transform}: filter={whole.text}: {part.text} can't be computed while files are read; use beam.Filter behind "
        "the read for it"
    )
