"""Messages of Protocol Buffers as plain objects, with the wire format, for the few that Beam's interface names.

A class lists its fields; `schema_messages` has those of Beam's portable schemas.  The package protobuf isn't needed.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Self, SupportsIndex

from ...frozen import frozen

_VARINTS: Final = {"bool": bool, "int32": int, "int64": int, "enum": int}
_FIXED: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "int32": 0,
    "int64": 0,
    "enum": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
}
_BITS: Final = {"int32": 31, "int64": 63, "enum": 31}


@frozen
class Field:
    """A field of a message.

    Args:
      number: the field's number in the wire format.
      kind: "bool", "int32", "int64", "enum", "float", "double", "string", "bytes", or the name of a message class of
        the same module.
      oneof: the name of the group of which only one field is set.
    """

    number: int
    kind: str
    repeated: bool = False
    oneof: str | None = None

    @property
    def is_message(self) -> bool:
        """Whether values are messages."""
        return self.kind not in _DEFAULTS


class Message:
    """Base class of messages.

    Fields that aren't set have the default of their type.  A message that is assigned, or given to the constructor, is
    copied.

    >>> from penstock.beam.typehints.schema_messages import FieldType, INT64
    >>> message = FieldType(atomic_type=INT64)
    >>> message.WhichOneof("type_info"), message.nullable
    ('atomic_type', False)
    >>> FieldType.FromString(message.SerializeToString()) == message
    True
    """

    fields_by_name: ClassVar[Mapping[str, Field]] = {}
    # The classes of the fields that are messages, by name.
    classes: ClassVar[dict[str, type[Message]]] = {}

    __hash__ = None  # type: ignore[assignment]

    def __init_subclass__(cls) -> None:
        Message.classes[cls.__name__] = cls

    def __init__(self, **values: Any) -> None:
        # Names without an underscore may be fields.
        self.__dict__.update(_values={}, _unset={}, _owner=None)
        for name, value in values.items():
            if value is None:
                continue
            if self._field(name).repeated:
                getattr(self, name).extend(value)
            elif self._field(name).is_message:
                self._set(name, self._message(name, value))
            else:
                setattr(self, name, value)

    @classmethod
    def _field(cls, name: str) -> Field:
        try:
            return cls.fields_by_name[name]
        except KeyError:
            raise ValueError(f"{cls.__name__} has no field {name!r}; it has {', '.join(cls.fields_by_name)}") from None

    def _message(self, name: str, value: Any) -> Message:
        cls = self.classes[self._field(name).kind]
        if isinstance(value, Mapping):
            return cls(**value)
        if not isinstance(value, cls):
            raise TypeError(f"{type(self).__name__}.{name}: expected a {cls.__name__}, got {value!r}")
        return value._copy()

    def _copy(self) -> Self:
        copied = type(self)()
        copied.CopyFrom(self)
        return copied

    # Called for names that aren't in the instance's dictionary: for all fields.
    def __getattr__(self, name: str) -> Any:
        field = type(self).fields_by_name.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        if name in self._values:
            return self._values[name]
        if field.repeated:
            return self._values.setdefault(name, Repeated(self, name))
        if not field.is_message:
            return _DEFAULTS[field.kind]
        # It becomes the field's value when one of its own fields is set.
        if name not in self._unset:
            unset = self._unset[name] = self.classes[field.kind]()
            unset.__dict__["_owner"] = (self, name)
        return self._unset[name]

    def __setattr__(self, name: str, value: Any) -> None:
        field = type(self).fields_by_name.get(name)
        if field is None or field.is_message or field.repeated:
            raise AttributeError(f"{type(self).__name__}.{name} can't be assigned")
        value = _checked(field, value, f"{type(self).__name__}.{name}")
        if field.oneof is None and value == _DEFAULTS[field.kind]:
            self._values.pop(name, None)
        else:
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        oneof = self._field(name).oneof
        if oneof is not None:
            for other in [other for other in self._values if self._field(other).oneof == oneof]:
                del self._values[other]
        self._values[name] = value
        self._unset.pop(name, None)
        self._touch()

    def _touch(self) -> None:
        if self._owner is not None:
            (owner, name), self.__dict__["_owner"] = self._owner, None
            owner._set(name, self)

    def _present(self) -> Iterator[tuple[str, Any]]:
        """Return the fields that are set, in the order of their numbers."""
        for name in type(self).fields_by_name:
            value = self._values.get(name)
            if value is not None and not (isinstance(value, Repeated) and not value):
                yield name, value

    def HasField(self, field_name: str) -> bool:
        """Return whether a field is set."""
        self._field(field_name)
        return field_name in dict(self._present())

    def WhichOneof(self, oneof_group: str) -> str | None:
        """Return the name of the field of the group that is set."""
        return next((name for name, _ in self._present() if self._field(name).oneof == oneof_group), None)

    def ClearField(self, field_name: str) -> None:
        """Set a field to its default."""
        self._field(field_name)
        self._values.pop(field_name, None)

    def Clear(self) -> None:
        """Set all fields to their defaults."""
        self._values.clear()

    def CopyFrom(self, other_msg: Message) -> None:
        """Replace all fields by copies of those of another message."""
        self.Clear()
        self.MergeFrom(other_msg)
        self._touch()

    def MergeFrom(self, other_msg: Message) -> None:
        """Set the fields that another message has; repeated ones are appended."""
        if type(other_msg) is not type(self):
            raise TypeError(f"expected a {type(self).__name__}, got {other_msg!r}")
        for name, value in other_msg._present():
            if isinstance(value, Repeated):
                getattr(self, name).extend(value)
            elif isinstance(value, Message):
                getattr(self, name).MergeFrom(value)
                self._set(name, getattr(self, name))
            else:
                self._set(name, value)

    def ListFields(self) -> list[tuple[Field, Any]]:
        """Return the fields that are set, with their values."""
        return [(self._field(name), value) for name, value in self._present()]

    # The wire format

    def SerializeToString(self, deterministic: bool = True) -> bytes:
        """Return the message in the wire format.

        Args:
          deterministic: has no effect, since fields are in the order of their numbers.
        """
        encoded = bytearray()
        for name, value in self._present():
            field = self._field(name)
            for one in value if isinstance(value, Repeated) else [value]:
                encoded += _encoded(field, one)
        return bytes(encoded)

    @classmethod
    def FromString(cls, s: bytes) -> Self:
        """Return the message of bytes in the wire format.  Raises `ValueError` for malformed ones."""
        message = cls()
        message.ParseFromString(s)
        return message

    def ParseFromString(self, serialized: bytes) -> int:
        """Replace all fields by those of a message in the wire format, and return its length."""
        self.Clear()
        names = {field.number: name for name, field in type(self).fields_by_name.items()}
        start = 0
        while start < len(serialized):
            tag, start = _read_varint(serialized, start)
            raw, start = _read(serialized, start, tag & 7)
            name = names.get(tag >> 3)
            if name is None:
                continue
            field = self._field(name)
            value = self.classes[field.kind].FromString(raw) if field.is_message else _decoded(field, raw)
            if field.repeated:
                getattr(self, name).append(value)
            else:
                self._set(name, value)
        return len(serialized)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self).FromString, (self.SerializeToString(),))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and dict(self._present()) == dict(other._present())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._present())})"


class Repeated(list[Any]):
    """The values of a repeated field, of which messages are copied."""

    def __init__(self, owner: Message, name: str) -> None:
        super().__init__()
        self._owner = owner
        self._name = name

    def append(self, value: Any) -> None:
        field = self._owner._field(self._name)
        name = f"{type(self._owner).__name__}.{self._name}"
        super().append(self._owner._message(self._name, value) if field.is_message else _checked(field, value, name))
        self._owner._touch()

    def extend(self, values: Iterable[Any]) -> None:
        for value in list(values):
            self.append(value)

    def insert(self, index: SupportsIndex, value: Any) -> None:
        self.append(value)
        super().insert(index, self.pop())

    def add(self, **values: Any) -> Any:
        """Append a message with these fields, and return it."""
        self.append(values)
        return self[-1]

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))


def _checked(field: Field, value: Any, name: str) -> Any:
    """Return the value of a field as one of Python's own.  Raises `TypeError` or `ValueError`, naming the field."""
    kind = field.kind
    try:
        if kind in ("float", "double"):
            return _FIXED[kind].unpack(_FIXED[kind].pack(value))[0]
        if kind in _VARINTS:
            number = operator.index(value) if kind != "bool" or not _is_bool(value) else int(value)
            if kind in _BITS and not -(1 << _BITS[kind]) <= number < 1 << _BITS[kind]:
                raise ValueError(f"{name}: {number} is out of range")
            return bool(number) if kind == "bool" else number
    except (TypeError, struct.error):
        raise TypeError(f"{name}: expected a value of {kind}, got {value!r}") from None
    wanted: Any = str if kind == "string" else bytes
    if not isinstance(value, wanted):
        raise TypeError(f"{name}: expected a value of {kind}, got {value!r}")
    return wanted(value)


def _is_bool(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")


def _encoded(field: Field, value: Any) -> bytes:
    if field.kind in _VARINTS:
        return _varint(field.number << 3) + _varint(int(value) & ((1 << 64) - 1))
    if field.kind in _FIXED:
        return _varint(field.number << 3 | (5 if field.kind == "float" else 1)) + _FIXED[field.kind].pack(value)
    block: bytes = (
        value.SerializeToString() if field.is_message else value.encode() if field.kind == "string" else value
    )
    return _varint(field.number << 3 | 2) + _varint(len(block)) + block


def _decoded(field: Field, raw: Any) -> Any:
    if field.kind in _VARINTS:
        return bool(raw) if field.kind == "bool" else raw - (1 << 64) if raw >> 63 else raw
    if field.kind in _FIXED:
        return _FIXED[field.kind].unpack(raw)[0]
    return raw.decode() if field.kind == "string" else raw


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _read_varint(encoded: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while start < len(encoded):
        group = encoded[start]
        start += 1
        number |= (group & 127) << shift
        if group < 128:
            return number, start
        shift += 7
    raise ValueError("the message ends inside of a number")


def _read(encoded: bytes, start: int, wire_type: int) -> tuple[Any, int]:
    """Return a value of a wire type, and its end."""
    if wire_type == 0:
        return _read_varint(encoded, start)
    if wire_type not in (1, 2, 5):
        raise ValueError(f"the message has the unknown wire type {wire_type}")
    length = {1: 8, 5: 4}.get(wire_type, 0)
    if wire_type == 2:
        length, start = _read_varint(encoded, start)
    if start + length > len(encoded):
        raise ValueError("the message ends inside of a field")
    return encoded[start : start + length], start + length
