"""Values of Kafka Connect by the schemas of their fields: dates, times, decimals and bytes.

Debezium writes such values as numbers and text, and their types into the envelope's schema.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

Converter = Callable[[Any], Any]

_EPOCH = datetime.datetime(1970, 1, 1)


def converters_of(schema: Mapping[str, Any]) -> dict[str, Converter]:
    """Return functions that convert values of a struct's fields, by name, for the fields that need one.

    >>> date = {"type": "int32", "name": "io.debezium.time.Date", "field": "day"}
    >>> converters_of({"type": "struct", "fields": [date, {"type": "string", "field": "name"}]})["day"](1)
    datetime.date(1970, 1, 2)
    """
    found = {field.get("field"): _converter(field) for field in schema.get("fields") or ()}
    return {name: _or_none(convert) for name, convert in found.items() if name is not None and convert is not None}


def _converter(schema: Mapping[str, Any]) -> Converter | None:
    name, kind = schema.get("name"), schema.get("type")
    if name == "org.apache.kafka.connect.data.Decimal":
        scale = int((schema.get("parameters") or {}).get("scale", 0))
        return lambda value: _decimal(value, scale)
    if name in _CONVERTERS:
        return _CONVERTERS[name]
    if kind == "bytes":
        return base64.b64decode
    if kind == "array":
        of_items = _converter(schema.get("items") or {})
        if of_items is None:
            return None
        convert = _or_none(of_items)
        return lambda values: [convert(value) for value in values]
    return None


def _or_none(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _decimal(value: Any, scale: int) -> Any:
    if not isinstance(value, str):
        # With decimal.handling.mode=double.
        return value
    return decimal.Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(-scale, _EXACT)


_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _date(days: int) -> datetime.date:
    return _EPOCH.date() + datetime.timedelta(days)


def _of_micros(micros: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=micros)


def _time(micros: int) -> datetime.time:
    return _of_micros(micros).time()


_CONVERTERS: dict[Any, Converter] = {
    "io.debezium.time.Date": _date,
    "org.apache.kafka.connect.data.Date": _date,
    "io.debezium.time.Timestamp": lambda value: _of_micros(value * 1000),
    "org.apache.kafka.connect.data.Timestamp": lambda value: _of_micros(value * 1000),
    "io.debezium.time.MicroTimestamp": _of_micros,
    "io.debezium.time.NanoTimestamp": lambda value: _of_micros(value // 1000),
    "io.debezium.time.ZonedTimestamp": datetime.datetime.fromisoformat,
    "io.debezium.time.Time": lambda value: _time(value * 1000),
    "org.apache.kafka.connect.data.Time": lambda value: _time(value * 1000),
    "io.debezium.time.MicroTime": _time,
    "io.debezium.time.NanoTime": lambda value: _time(value // 1000),
    "io.debezium.time.ZonedTime": datetime.time.fromisoformat,
    "io.debezium.data.VariableScaleDecimal": lambda value: _decimal(value["value"], value["scale"]),
    "io.debezium.data.Uuid": uuid.UUID,
    "io.debezium.data.Json": json.loads,
}
