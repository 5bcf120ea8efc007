"""Filters as expressions of Iceberg's client."""

from __future__ import annotations

from typing import Any

from ...sdk.columns.expressions import Column
from ..lakehouse.filters import refused
from .catalog import package

_COMPARISONS = {
    "equal": "EqualTo",
    "not_equal": "NotEqualTo",
    "less": "LessThan",
    "less_equal": "LessThanOrEqual",
    "greater": "GreaterThan",
    "greater_equal": "GreaterThanOrEqual",
}
_TURNED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def iceberg_filter(given: Any, label: str) -> Any:
    """Return a filter as an expression of the client; None stays None.

    Args:
      given: an expression of `col` that compares fields with values; or one of the client, also as text.

    Raises `TypeError` for another one, and `ValueError` for a text that the client refuses.

    >>> from penstock import col
    >>> iceberg_filter((1 < col("n")) & col("word").is_null(), "Read")
    And(left=GreaterThan(term=Reference(name='n'), literal=LongLiteral(1)), right=IsNull(term=Reference(name='word')))
    """
    if given is None:
        return None
    if isinstance(given, str):
        try:
            return package(label, "pyiceberg.expressions.parser").parse(given)
        except Exception as error:
            raise ValueError(f"{label}: filter={given!r} can't be parsed: {error}") from None
    if isinstance(given, package(label, "pyiceberg.expressions").BooleanExpression):
        return given
    if not isinstance(given, Column):
        raise TypeError(f"{label}: filter must be an expression such as beam.col('n') > 1, got {type(given).__name__}")
    return _converted(given, given, label)


def _converted(part: Any, whole: Column, label: str) -> Any:
    expressions = package(label, "pyiceberg.expressions")
    name, arguments = part.parts if isinstance(part, Column) else (None, ())
    if name in ("and_kleene", "or_kleene"):
        kind = expressions.And if name == "and_kleene" else expressions.Or
        return kind(*(_converted(argument, whole, label) for argument in arguments))
    if name == "invert":
        return expressions.Not(_converted(arguments[0], whole, label))
    if name == "is_null" and _is_field(arguments[0]):
        return expressions.IsNull(_name(arguments[0]))
    if name == "is_in" and _is_field(arguments[0]):
        return expressions.In(_name(arguments[0]), arguments[1])
    if name in _COMPARISONS:
        left, right = arguments
        if _is_field(right) and not isinstance(left, Column):
            left, right, name = right, left, _TURNED.get(name, name)
        if _is_field(left) and not isinstance(right, Column):
            return getattr(expressions, _COMPARISONS[name])(_name(left), right)
    if isinstance(part, Column):
        raise refused(part, whole, label)
    raise refused(whole, whole, label)


def _is_field(value: Any) -> bool:
    return isinstance(value, Column) and value.is_field


def _name(field: Any) -> str:
    (name,) = field.fields
    return str(name)
