"""Avro's types as those of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..sdk.typehints.arrow_schema import arrow_type
from ..sdk.typehints.schema import list_of

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


def column_type(kind: Any, named: dict[str, Any] | None = None) -> Any:
    """Return the type of a field of an Avro schema, as in `Schema`; None for one that has no one type.

    A logical type is that of the values that fastavro makes: dates, times, datetimes, decimals and UUIDs.

    Args:
      named: the types of the full names in the schema so far, to which those in `kind` are added.

    >>> column_type(["null", "long"]), column_type({"type": "array", "items": "long"}), column_type(["long", "string"])
    ('int64', 'list<item: int64>', None)
    >>> column_type({"type": "long", "logicalType": "timestamp-millis"})
    TimestampType(timestamp[us, tz=UTC])
    """
    named = {} if named is None else named
    if isinstance(kind, list):
        alternatives = [one for one in kind if one != "null"]
        kind = alternatives[0] if len(alternatives) == 1 else None
    if not isinstance(kind, Mapping):
        return _COLUMN_TYPES.get(kind, named.get(kind)) if isinstance(kind, str) else None
    physical = kind.get("type")
    if not isinstance(physical, str):
        # Such as {"type": {"type": "string"}}.
        return column_type(physical, named)
    if physical in ("array", "map", "record"):
        found = _nested_type(physical, kind, named)
    else:
        logical = f"{physical}-{kind['logicalType']}" if "logicalType" in kind else ""
        found = _logical_type(logical, kind) if logical in _LOGICAL else _COLUMN_TYPES.get(physical)
    if "name" in kind:
        named[kind["name"]] = found
    return found


def _nested_type(physical: str, kind: Mapping[str, Any], named: dict[str, Any]) -> Any:
    """Return the type of lists, of maps or of structs."""
    try:
        import pyarrow
    except ImportError:
        # Then there are no columns.
        return None
    if physical == "record":
        # A record that has itself as a field has no type.
        named[kind["name"]] = None
        fields = [(field["name"], column_type(field["type"], named)) for field in kind["fields"]]
        is_known = bool(fields) and None not in dict(fields).values()
        return pyarrow.struct([(name, arrow_type(one)) for name, one in fields]) if is_known else None
    item = column_type(kind["items" if physical == "array" else "values"], named)
    if item is None:
        return None
    if physical == "map":
        return pyarrow.map_("string", arrow_type(item))
    return list_of(item) if isinstance(item, str) else pyarrow.list_(item)


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


class CommonFields:
    """The fields of the records of several files.

    A field has the type of all files that have it.  Whole numbers are numbers if another file has these, and decimals
    have the digits of all files.

    Attributes:
      kinds: the types of fields by name, as in `Schema`.
      unknown: by the name of a field without a type, why it has none.

    >>> common = CommonFields()
    >>> common.add("a.avro", {"id": "int64", "price": "int64"})
    >>> common.add("b.avro", {"id": "string", "price": "double"})
    >>> common.kinds["price"], common.unknown["id"]
    ('double', "it is int64 in 'a.avro', and string in 'b.avro'")
    """

    def __init__(self) -> None:
        self.kinds: dict[str, Any] = {}
        self.unknown: dict[str, str] = {}
        # The file that each type is known by.
        self._paths: dict[str, str] = {}

    def add(self, path: str, fields: Mapping[str, Any]) -> None:
        """Add the fields of a file."""
        for name, kind in fields.items():
            if name in self.unknown:
                continue
            former = self.kinds.setdefault(name, kind)
            if kind is None:
                self.unknown[name] = f"in {path!r} it is of several types, or of one that columns don't have"
            elif name in self._paths and str(former) != str(kind):
                self.kinds[name] = _common_type(former, kind)
                if self.kinds[name] is None:
                    self.unknown[name] = f"it is {former} in {self._paths[name]!r}, and {kind} in {path!r}"
            else:
                self._paths.setdefault(name, path)
            if name in self.unknown:
                self.kinds[name] = None


def _common_type(left: Any, right: Any) -> Any:
    """Return the type of the values of both types; None if there is none."""
    if {str(left), str(right)} == {"int64", "double"}:
        return "double"
    if isinstance(left, str) or isinstance(right, str):
        return None
    import pyarrow

    if not (pyarrow.types.is_decimal(left) and pyarrow.types.is_decimal(right)):
        return None
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return pyarrow.decimal128(digits, scale) if digits <= _MOST_DIGITS else None
