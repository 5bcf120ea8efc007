"""Avro's types as those of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COLUMN_TYPES = {
    "boolean": "bool",
    "int": "int64",
    "long": "int64",
    "float": "double",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
# The largest precision of Arrow's decimal128, and of SQL's decimals.
_MOST_DIGITS = 38


def column_type(kind: Any) -> Any:
    """Return the type of a field of an Avro schema, as in `Schema`; None for one that isn't simple.

    A logical type is that of the values that fastavro makes: dates, times, datetimes, decimals and UUIDs.

    >>> column_type(["null", "long"]), column_type({"type": "array", "items": "long"})
    ('int64', None)
    >>> column_type({"type": "long", "logicalType": "timestamp-millis"})
    TimestampType(timestamp[us, tz=UTC])
    """
    if isinstance(kind, list):
        alternatives = [one for one in kind if one != "null"]
        kind = alternatives[0] if len(alternatives) == 1 else None
    if not isinstance(kind, Mapping):
        return _COLUMN_TYPES.get(kind) if isinstance(kind, str) else None
    physical = kind.get("type")
    if not isinstance(physical, str):
        # Such as {"type": {"type": "string"}}.
        return column_type(physical)
    logical = f"{physical}-{kind['logicalType']}" if "logicalType" in kind else ""
    return _logical_type(logical, kind) if logical in _LOGICAL else _COLUMN_TYPES.get(physical)


# Avro has a reader take a logical type that it doesn't know for its physical type.
_LOGICAL = frozenset(
    {
        "int-date",
        "int-time-millis",
        "long-time-micros",
        "long-timestamp-millis",
        "long-timestamp-micros",
        "long-local-timestamp-millis",
        "long-local-timestamp-micros",
        "bytes-decimal",
        "fixed-decimal",
        "string-uuid",
    }
)


def _logical_type(logical: str, kind: Mapping[str, Any]) -> Any:
    try:
        import pyarrow
    except ImportError:
        # Then there are no columns.
        return None
    if logical == "int-date":
        return pyarrow.date32()
    if logical == "string-uuid":
        return pyarrow.uuid()
    if logical.endswith("-decimal"):
        digits, scale = kind.get("precision"), kind.get("scale", 0)
        return pyarrow.decimal128(digits, scale) if isinstance(digits, int) and digits <= _MOST_DIGITS else None
    if "-timestamp-" in logical:
        return pyarrow.timestamp("us", None if "-local-" in logical else "UTC")
    return pyarrow.time64("us")
