"""Avro's types as those of columns."""

from __future__ import annotations

from typing import Any

_COLUMN_TYPES = {
    "boolean": "bool",
    "int": "int64",
    "long": "int64",
    "float": "double",
    "double": "double",
    "string": "string",
}


def column_type(kind: Any) -> str | None:
    """Return the type of a field of an Avro schema, as in `Schema`; None for one that isn't simple.

    >>> column_type(["null", "long"]), column_type({"type": "array", "items": "long"})
    ('int64', None)
    """
    if isinstance(kind, list):
        alternatives = [one for one in kind if one != "null"]
        kind = alternatives[0] if len(alternatives) == 1 else None
    return _COLUMN_TYPES.get(kind) if isinstance(kind, str) else None
