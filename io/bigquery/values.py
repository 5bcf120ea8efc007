"""The values of rows: as JSON, and as messages of the Storage Write API; and rows of Arrow as dicts.

A value is given as Python has it or as JSON does: a date is a `datetime.date` or '2026-01-31', a decimal number a
`Decimal`, a number or text, and so on.  NaN and infinite floats are values of FLOAT columns.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.elements.row import fields_of
from ...windowing import Timestamp
from .schemas import Column

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

# Digits before and after the point.
_DIGITS = {"NUMERIC": (29, 9), "BIGNUMERIC": (38, 38)}


# By the names of columns in lower case, their names, types, and functions of values.
_Converters: TypeAlias = Mapping[str, tuple[str, str, Callable[[Any], Any]]]


class WrongValueError(ValueError):
    """A row that a table doesn't take: its text names the column."""


@frozen
class Rows:
    """Converts rows of a table with these columns.

    Args:
      ignores_unknown: drops values of columns that the table doesn't have.
      base64_bytes: takes bytes for text in base64, as Beam does for rows that it writes as JSON.
      parsed_json: gives values of JSON columns as JSON has them, as load jobs take them, instead of as text.

    >>> rows = Rows((Column("day", "DATE"), Column("n", "INTEGER")))
    >>> rows.as_json({"day": datetime.date(2026, 1, 31), "n": "7"})
    {'day': '2026-01-31', 'n': '7'}
    >>> rows.as_json({"day": "yesterday"})
    Traceback (most recent call last):
    penstock.io.bigquery.values.WrongValueError: column day: expected a DATE, got 'yesterday'
    """

    columns: Sequence[Column]
    ignores_unknown: bool = False
    base64_bytes: bool = False
    parsed_json: bool = False
    _json: _Converters = attrs.field(init=False)
    _proto: _Converters = attrs.field(init=False)
    _required: Sequence[str] = attrs.field(init=False)

    @_json.default
    def _json_converters(self) -> _Converters:
        return self._converters(self.columns, _AS_JSON)

    @_proto.default
    def _proto_converters(self) -> _Converters:
        return self._converters(self.columns, _AS_PROTO)

    def _converters(self, columns: Sequence[Column], kinds: Mapping[str, Callable[[Any], Any]]) -> _Converters:
        return {each.name.lower(): (each.name, each.type, self._converter(each, kinds)) for each in columns}

    @_required.default
    def _required_columns(self) -> Sequence[str]:
        return _required_of(self.columns)

    def as_json(self, row: Any) -> dict[str, Any]:
        """Return a row as `tabledata.insertAll` and load jobs take it.  Raises `WrongValueError`."""
        return self._converted(row, self._json, self._required)

    def as_fields(self, row: Any) -> dict[str, Any]:
        """Return a row as the fields of a message.  Raises `WrongValueError`."""
        return self._converted(row, self._proto, self._required)

    def _converted(self, row: Any, converters: _Converters, required: Sequence[str]) -> dict[str, Any]:
        found = {}
        for name, value in (row if type(row) is dict else _as_mapping(row)).items():
            converter = converters.get(name) or converters.get(str(name).lower())
            if converter is None:
                if self.ignores_unknown:
                    continue
                raise WrongValueError(f"column {name}: the table has no such column")
            if value is None:
                continue
            column, kind, convert = converter
            try:
                found[column] = convert(value)
            except (ValueError, TypeError, ArithmeticError) as error:
                raise _wrong(column, kind, value, error) from None
        for name in required:
            if name not in found:
                raise WrongValueError(f"column {name}: it is REQUIRED, and has no value")
        return found

    def _converter(self, column: Column, kinds: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
        if column.type == "RECORD":
            inner = self._converters(column.fields, kinds)
            convert: Callable[[Any], Any] = partial(
                self._converted, converters=inner, required=_required_of(column.fields)
            )
        else:
            convert = kinds[column.type]
            if column.type == "BYTES" and self.base64_bytes:
                convert = _of_base64 if kinds is _AS_PROTO else _same_base64
            if column.type == "JSON" and self.parsed_json:
                convert = _parsed_json

        if column.mode != "REPEATED":
            return convert

        def repeated(values: Any) -> Any:
            if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
                raise _NotRepeatedError(f"column {column.name}: it is REPEATED; expected a list, got {values!r}")
            found = []
            for value in values:
                try:
                    found.append(convert(value))
                except (ValueError, TypeError, ArithmeticError) as error:
                    raise _NotRepeatedError(str(_wrong(column.name, column.type, value, error))) from None
            return found

        return repeated


class _NotRepeatedError(WrongValueError):
    """A value of a REPEATED column, whose text names the column."""


def _wrong(column: str, kind: str, value: Any, error: Exception) -> WrongValueError:
    """Return the error of a value, with the names of the columns that it is in."""
    if isinstance(error, _NotRepeatedError):
        return WrongValueError(str(error))
    if isinstance(error, WrongValueError):
        return WrongValueError(f"column {column}.{str(error).removeprefix('column ')}")
    return WrongValueError(f"column {column}: expected a {kind}, got {value!r}")


def _required_of(columns: Sequence[Column]) -> Sequence[str]:
    return [column.name for column in columns if column.mode == "REQUIRED"]


def _as_mapping(row: Any) -> Mapping[str, Any]:
    found = row if isinstance(row, Mapping) else fields_of(row)
    if found is None:
        raise WrongValueError(f"expected a row as a dict, got {type(row).__name__}: {shortened(row, 100)}")
    return found


# Values of one type, checked


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError
    return str(value)


def _whole(value: Any) -> int:
    if type(value) is int:
        found = value
    elif isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    else:
        found = int(value)
    if not -(2**63) <= found < 2**63:
        raise ValueError
    return found


def _whole_text(value: Any) -> str:
    return str(value if type(value) is int and -(2**63) <= value < 2**63 else _whole(value))


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError
    return float(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError


def _bytes(value: Any) -> bytes:
    return _of_base64(value) if isinstance(value, str) else bytes(memoryview(value))


def _of_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _same_base64(value: Any) -> str:
    return base64.b64encode(_of_base64(value)).decode()


def _decimal(kind: str) -> Callable[[Any], str]:
    before, after = _DIGITS[kind]

    def convert(value: Any) -> str:
        if isinstance(value, (bool, bytes)):
            raise ValueError
        try:
            # A float as it is written, not as the binary fraction that it is.
            number = value if isinstance(value, Decimal) else Decimal(str(value))
        except InvalidOperation:
            raise ValueError from None
        if not number.is_finite() or number.adjusted() >= before:
            raise ValueError
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > after and number.normalize().as_tuple().exponent < -after:  # type: ignore[operator]
            raise ValueError
        return f"{number:f}"

    return convert


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        raise ValueError
    return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)


def _time(value: Any) -> str:
    found = value if isinstance(value, datetime.time) else datetime.time.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError
    return found.isoformat()


def _datetime(value: Any) -> str:
    found = value if isinstance(value, datetime.datetime) else datetime.datetime.fromisoformat(value)
    if found.tzinfo is not None:
        raise ValueError
    return found.isoformat()


_UTC = re.compile(r"\s*(?:UTC|Z)$")


def micros_of(value: Any) -> int:
    """Return the microseconds since 1970 of a TIMESTAMP: a time, text, or seconds.

    >>> micros_of("2026-01-31 10:00:00.000001 UTC") - micros_of(datetime.datetime(2026, 1, 31, 10))
    1
    """
    if isinstance(value, Timestamp):
        return int(value.micros)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(_UTC.sub("+00:00", value.strip()))
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, bool):
        raise ValueError
    if isinstance(value, int):
        return value * 1_000_000
    if not math.isfinite(value):
        raise ValueError
    found: int = round(value * 1_000_000)
    return found


def _timestamp_text(value: Any) -> str:
    if type(value) is datetime.datetime and value.tzinfo is datetime.UTC:
        return value.isoformat()
    return (_EPOCH + micros_of(value) * _MICROSECOND).isoformat()


def _json_value(value: Any) -> str:
    if isinstance(value, str):
        json.loads(value)
        return value
    return json.dumps(value)


def _parsed_json(value: Any) -> Any:
    return json.loads(_json_value(value))


def _only_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _json_float(value: Any) -> float | str:
    found = _float(value)
    return found if math.isfinite(found) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(found)]


_AS_JSON: Mapping[str, Callable[[Any], Any]] = {
    "STRING": _text,
    # As text: readers of JSON lose digits of large numbers.
    "INTEGER": _whole_text,
    "FLOAT": _json_float,
    "BOOLEAN": _boolean,
    "BYTES": lambda value: base64.b64encode(_bytes(value)).decode(),
    "NUMERIC": _decimal("NUMERIC"),
    "BIGNUMERIC": _decimal("BIGNUMERIC"),
    "DATE": lambda value: _date(value).isoformat(),
    "TIME": _time,
    "DATETIME": _datetime,
    "TIMESTAMP": _timestamp_text,
    "GEOGRAPHY": _only_text,
    "JSON": _json_value,
    "INTERVAL": _only_text,
}

_AS_PROTO: Mapping[str, Callable[[Any], Any]] = {
    **_AS_JSON,
    "INTEGER": _whole,
    "FLOAT": _float,
    "BYTES": _bytes,
    "TIMESTAMP": micros_of,
}

# Messages


def message_class(columns: Sequence[Column], pseudocolumns: Sequence[str] = ()) -> tuple[Any, Any]:
    """Return the descriptor and the class of the messages of a table's rows.

    Args:
      pseudocolumns: columns of text that the table doesn't have, such as `_CHANGE_TYPE`.
    """
    descriptor_pb2, descriptor_pool, message_factory = (
        import_module(f"google.protobuf.{name}") for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    descriptor = descriptor_pb2.DescriptorProto(name="Row")
    _add_fields(descriptor, [*columns, *(Column(name, "STRING") for name in pseudocolumns)])
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", syntax="proto2", message_type=[descriptor])
    pool.Add(file)
    return descriptor, message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))


def _add_fields(message: Any, columns: Sequence[Column]) -> None:
    FieldDescriptorProto = import_module("google.protobuf.descriptor_pb2").FieldDescriptorProto
    kinds = {
        "INTEGER": FieldDescriptorProto.TYPE_INT64,
        "TIMESTAMP": FieldDescriptorProto.TYPE_INT64,
        "FLOAT": FieldDescriptorProto.TYPE_DOUBLE,
        "BOOLEAN": FieldDescriptorProto.TYPE_BOOL,
        "BYTES": FieldDescriptorProto.TYPE_BYTES,
        "RECORD": FieldDescriptorProto.TYPE_MESSAGE,
    }
    for number, column in enumerate(columns, 1):
        if not re.fullmatch(r"[A-Za-z_]\w*", column.name, re.ASCII):
            raise ValueError(f"column {column.name!r}: the Storage Write API needs a name of letters, digits and _")
        field = message.field.add(name=column.name, number=number)
        repeated = column.mode == "REPEATED"
        field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        field.type = kinds.get(column.type, FieldDescriptorProto.TYPE_STRING)
        if column.type == "RECORD":
            inner = message.nested_type.add(name=f"Of{number}")
            field.type_name = inner.name
            _add_fields(inner, column.fields)


# Rows that are read


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Return the rows of an Arrow table or record batch of BigQuery, as dicts.

    Numbers are ints, floats and `Decimal`s; a TIMESTAMP is a time in UTC, a DATETIME one without a time zone; JSON,
    GEOGRAPHY and INTERVAL are text.  A REPEATED column without values is an empty list.

    >>> import pyarrow
    >>> rows_of(pyarrow.table({"n": [1], "names": pyarrow.array([None], pyarrow.list_(pyarrow.string()))}))
    [{'n': 1, 'names': []}]
    """
    import pyarrow as pa

    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    intervals = [field.name for field in table.schema if pa.types.is_interval(field.type)]
    rows: list[dict[str, Any]] = table.to_pylist()
    for name in lists:
        for row in rows:
            if row[name] is None:
                row[name] = []
    for name in intervals:
        for row in rows:
            if row[name] is not None:
                row[name] = _interval_text(*row[name])
    return rows


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as BigQuery writes it.

    >>> _interval_text(14, 3, 14706789000000)
    '1-2 3 4:5:6.789'
    """
    years, rest = divmod(abs(months), 12)
    seconds, fraction = divmod(abs(nanoseconds) // 1000, 1_000_000)
    text = f".{fraction:06d}".rstrip("0") if fraction else ""
    signs = ["-" if each < 0 else "" for each in (months, nanoseconds)]
    clock = f"{seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}{text}"
    return f"{signs[0]}{years}-{rest} {days} {signs[1]}{clock}"
