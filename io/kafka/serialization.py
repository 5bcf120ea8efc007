"""Keys and values as bytes: Kafka's own formats by the names that Beam knows them by, or functions.

>>> read = decoder_of("org.apache.kafka.common.serialization.ShortDeserializer", "key_deserializer", "ReadFromKafka")
>>> read(bytes([1, 2]))
258
>>> encoder_of("StringSerializer", "value_serializer", "WriteToKafka")("a")
b'a'
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from ...sdk.typehints import hints_of_callable
from .registry.formats import RegistryFormat

_PACKAGE = "org.apache.kafka.common.serialization."

Decoder = Callable[[bytes], Any]
Encoder = Callable[[Any], Any]


def _unpacked(form: str, kind: str) -> Decoder:
    layout = struct.Struct(form)

    def decode(data: bytes) -> Any:
        if len(data) != layout.size:
            raise ValueError(f"expected the {layout.size} bytes of a {kind}, got {len(data)}")
        return layout.unpack(data)[0]

    return decode


def _packed(form: str, kind: type) -> Encoder:
    layout = struct.Struct(form)

    def encode(value: Any) -> bytes:
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise TypeError(f"expected {_named(kind)}, got {type(value).__name__}")
        return layout.pack(value)

    return encode


def _named(kind: type) -> str:
    return "an int" if kind is int else f"a {kind.__name__}"


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"expected a str, got {type(value).__name__}")
    return value.encode()


def _uuid(value: Any) -> bytes:
    if not isinstance(value, uuid.UUID):
        raise TypeError(f"expected a UUID, got {type(value).__name__}")
    return str(value).encode()


def _nothing(value: Any) -> None:
    if value is not None:
        raise ValueError(f"expected nothing, got a {type(value).__name__}")


def unchanged(value: Any) -> Any:
    """Return bytes as they are.  Raises `TypeError` for any other value."""
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, got {type(value).__name__}")
    return value


# By name, the type of the values, how they are read, and how they are written.
_FORMATS: dict[str, tuple[Any, Decoder, Encoder]] = {
    "ByteArray": (bytes, unchanged, unchanged),
    "Bytes": (bytes, unchanged, unchanged),
    "String": (str, bytes.decode, _text),
    "Long": (int, _unpacked(">q", "long"), _packed(">q", int)),
    "Integer": (int, _unpacked(">i", "integer"), _packed(">i", int)),
    "Short": (int, _unpacked(">h", "short"), _packed(">h", int)),
    "Double": (float, _unpacked(">d", "double"), _packed(">d", float)),
    "Float": (float, _unpacked(">f", "float"), _packed(">f", float)),
    "UUID": (uuid.UUID, lambda data: uuid.UUID(data.decode()), _uuid),
    "Void": (type(None), _nothing, _nothing),
}


def type_of(given: Any) -> Any:
    """Return the type of what a deserializer returns: that of Kafka's own, or a function's annotation, or Any."""
    name = _format_of(given, "Deserializer")
    if name is not None:
        return _FORMATS[name][0]
    declared = None if isinstance(given, RegistryFormat) else hints_of_callable(given)[1]
    return Any if declared is None else declared


def decoder_of(given: Any, parameter: str, transform: str) -> Decoder | RegistryFormat | None:
    """Return the function or the format that reads keys or values; None if they stay bytes.

    Raises `ValueError` for an unknown name.
    """
    name = _checked(given, "Deserializer", parameter, transform)
    if name is None:
        return given  # type: ignore[no-any-return]
    return None if _FORMATS[name][0] is bytes else _FORMATS[name][1]


def encoder_of(given: Any, parameter: str, transform: str) -> Encoder | RegistryFormat:
    """Return the function or the format that writes keys or values.  Raises `ValueError` for an unknown name."""
    name = _checked(given, "Serializer", parameter, transform)
    return given if name is None else _FORMATS[name][2]


def _checked(given: Any, suffix: str, parameter: str, transform: str) -> str | None:
    """Return the name of a format of Kafka's, or None for a function."""
    name = _format_of(given, suffix)
    if name is not None and name not in _FORMATS:
        known = ", ".join(f"{each}{suffix}" for each in _FORMATS)
        raise ValueError(
            f"{transform}: {parameter}={given!r} is a class of Java's that isn't among those that are known here: "
            f"{known}; give a function instead"
        )
    if name is None and not callable(given) and not isinstance(given, RegistryFormat):
        raise TypeError(
            f"{transform}: {parameter} must be a function, a name such as 'String{suffix}', or a format of a "
            f"SchemaRegistry, got {given!r}"
        )
    return name


def _format_of(given: Any, suffix: str) -> str | None:
    return given.removeprefix(_PACKAGE).removesuffix(suffix) if isinstance(given, str) else None
