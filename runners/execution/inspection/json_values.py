"""Values as JSON: of state cells, keys and windows.

Numbers, strings, booleans and None are themselves.  Lists and tuples are arrays.  Dictionaries with strings as keys are
objects.  Any other value is an object with a `$type`.

>>> json_value({"at": (1, 2.5), b"k": {3}})
{'$type': 'dict', 'items': [['at', [1, 2.5]], [{'$type': 'bytes', 'base64': 'aw=='}, {'$type': 'set', 'items': [3]}]]}
"""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import fractions
import json
import math
import uuid
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import attr

from ....persistence import name_of
from ....sdk.coders.key_encoding import CodedKey
from ....sdk.elements.row import Row
from ....sdk.errors import SnapshotError
from ....sdk.userstate.bag import Chunks
from ....sdk.userstate.combining_value import Accumulator
from ....sdk.userstate.ordered_list import Timeline
from ....windowing import GLOBAL_WINDOW, IntervalWindow, Timestamp
from ....windowing.duration import Duration
from ..windows.retractions import Multiset, SignedInputs, SignedWindows
from .stored_objects import StoredObject

# The key that marks an object which isn't a dictionary.
TYPE = "$type"

# Deeper values are cut.
_DEEPEST = 60

# Parts of one value: a small pickle can hold a list that contains the same list many times, many levels deep.
_MOST_PARTS = 2_000_000


def json_value(value: Any) -> Any:
    """Return a value as data of JSON.

    Raises `SnapshotError` for a value with more than two million parts.
    """
    return _JsonValue().of(value, 0)


def text_of(value: Any) -> str:
    """Return a value as one line of JSON, the same for equal values.

    >>> text_of(("b", None, float("inf")))
    '["b",null,{"$type":"float","value":"inf"}]'
    """
    return as_line(json_value(value))


def as_line(data: Any) -> str:
    """Return data of JSON as one line, which is valid UTF-8."""
    line = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair.
        return json.dumps(data, separators=(",", ":"))
    return line


def time_of(micros: int) -> str:
    """Return a time as RFC 3339 text; times outside the years 1 to 9999 as a number of seconds.

    >>> time_of(1_500_000), time_of(2**62)
    ('1970-01-01T00:00:01.500000Z', '4611686018427.387904 s')
    """
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros // 1_000_000}.{micros % 1_000_000:06} s"
    return f"{moment.isoformat()}Z"


def window_of(window: Any) -> Any:
    """Return a window as data of JSON; None for the global window."""
    if window == GLOBAL_WINDOW or window is None:
        return None
    return json_value(window)


class _JsonValue:
    def __init__(self) -> None:
        self._parts = 0

    def of(self, value: Any, depth: int) -> Any:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise SnapshotError(f"a value has more than {_MOST_PARTS:,} parts, which is more than can be shown")
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {TYPE: "float", "value": str(value)}
        if depth > _DEEPEST:
            return {TYPE: "deeper", "class": kind.__qualname__}
        if kind in (list, tuple):
            return [self.of(part, depth + 1) for part in value]
        if kind is dict:
            return self._of_items(value.items(), "dict", depth)
        if isinstance(value, StoredObject):
            return self._of_stored(value, depth)
        known = _KNOWN.get(uuid.UUID if isinstance(value, uuid.UUID) else kind)
        if known is not None:
            return known(self, value, depth)
        return self._of_object(value, kind, depth)

    def _of_items(self, items: Iterable[tuple[Any, Any]], name: str, depth: int) -> Any:
        pairs = list(items)
        if name == "dict" and all(type(key) is str for key, _ in pairs) and TYPE not in dict(pairs):
            return {key: self.of(value, depth + 1) for key, value in pairs}
        return {TYPE: name, "items": [[self.of(key, depth + 1), self.of(value, depth + 1)] for key, value in pairs]}

    def _of_list(self, name: str, values: Iterable[Any], depth: int) -> Any:
        return {TYPE: name, "items": [self.of(value, depth + 1) for value in values]}

    def _of_set(self, name: str, values: Iterable[Any], depth: int) -> Any:
        return {TYPE: name, "items": sorted((self.of(value, depth + 1) for value in values), key=as_line)}

    def _of_fields(self, name: str, fields: dict[str, Any], depth: int) -> Any:
        return {TYPE: name, "fields": {field: self.of(value, depth + 1) for field, value in fields.items()}}

    def _of_stored(self, value: StoredObject, depth: int) -> Any:
        """Return the data that an instance of a class of users was pickled with."""
        shown: dict[str, Any] = {TYPE: value.type_name, "opaque": True}
        if value.args:
            shown["args"] = [self.of(part, depth + 1) for part in value.args]
        if value.fields:
            shown["fields"] = {str(name): self.of(part, depth + 1) for name, part in value.fields.items()}
        elif value.state is not None:
            shown["state"] = self.of(value.state, depth + 1)
        if value.items:
            shown["items"] = [self.of(part, depth + 1) for part in value.items]
        return shown

    def _of_object(self, value: Any, kind: type[Any], depth: int) -> Any:
        """Return an instance of a class that was imported, with its fields."""
        name = name_of(kind).replace(":", ".")
        if isinstance(value, type):
            origin = value.origin if issubclass(value, StoredObject) else (value.__module__, value.__qualname__)
            return {TYPE: "class", "name": ".".join(origin)}
        if isinstance(value, Enum):
            return {TYPE: name, "value": self.of(value.value, depth + 1)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._of_fields(name, dict(zip(value._fields, value, strict=True)), depth)
        if attr.has(kind):
            fields = {field.name: getattr(value, field.name, None) for field in attr.fields(kind)}
            return self._of_fields(name, fields, depth)
        if isinstance(value, dict):
            return self._of_items(value.items(), name, depth)
        if isinstance(value, (list, tuple)):
            return self._of_list(name, value, depth)
        if isinstance(value, (set, frozenset)):
            return self._of_set(name, value, depth)
        slots = [slot for base in kind.__mro__ for slot in _slots(base)]
        found = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot)} | getattr(value, "__dict__", {})
        return self._of_fields(name, found, depth) if found else {TYPE: name, "text": repr(value)}


def _slots(base: type[Any]) -> list[str]:
    slots = base.__dict__.get("__slots__", ())
    return [slot for slot in ([slots] if isinstance(slots, str) else slots) if not slot.startswith("__")]


_Show = Callable[[_JsonValue, Any, int], Any]

_KNOWN: dict[type[Any], _Show] = {
    bytes: lambda r, v, d: {TYPE: "bytes", "base64": base64.b64encode(v).decode()},
    bytearray: lambda r, v, d: {TYPE: "bytearray", "base64": base64.b64encode(v).decode()},
    complex: lambda r, v, d: {TYPE: "complex", "value": str(v)},
    range: lambda r, v, d: {TYPE: "range", "value": str(v)},
    collections.deque: lambda r, v, d: r._of_list("deque", v, d),
    set: lambda r, v, d: r._of_set("set", v, d),
    frozenset: lambda r, v, d: r._of_set("frozenset", v, d),
    decimal.Decimal: lambda r, v, d: {TYPE: "decimal", "value": str(v)},
    fractions.Fraction: lambda r, v, d: {TYPE: "fraction", "value": str(v)},
    datetime.datetime: lambda r, v, d: {TYPE: "datetime", "value": v.isoformat()},
    datetime.date: lambda r, v, d: {TYPE: "date", "value": v.isoformat()},
    datetime.time: lambda r, v, d: {TYPE: "time", "value": v.isoformat()},
    datetime.timedelta: lambda r, v, d: {TYPE: "timedelta", "seconds": v.total_seconds()},
    uuid.UUID: lambda r, v, d: {TYPE: "uuid", "value": str(v)},
    Timestamp: lambda r, v, d: {TYPE: "timestamp", "value": time_of(v.micros)},
    Duration: lambda r, v, d: {TYPE: "duration", "seconds": v.micros / 1_000_000},
    IntervalWindow: lambda r, v, d: {
        TYPE: "interval", "start": time_of(v.start_micros), "end": time_of(v.end_micros),
    },
    type(GLOBAL_WINDOW): lambda r, v, d: {TYPE: "global"},
    CodedKey: lambda r, v, d: r.of(v.key, d + 1),
    Row: lambda r, v, d: r._of_fields("row", v.as_dict(), d),
    Chunks: lambda r, v, d: [r.of(part, d + 1) for part in v],
    Accumulator: lambda r, v, d: r.of(v.value, d + 1),
    Timeline: lambda r, v, d: [
        [r.of(Timestamp.of_micros(micros), d + 1), r.of(part, d + 1)]
        for micros, part in zip(v.times, v.values, strict=True)
    ],
    Multiset: lambda r, v, d: r._of_list("multiset", v, d),
    SignedInputs: lambda r, v, d: r._of_fields(
        "signed-inputs", {"accumulator": v.accumulator, "count": v.count, "others": v.others}, d
    ),
    SignedWindows: lambda r, v, d: r._of_items(v.by_window.items(), "signed-windows", d),
}  # fmt: skip
