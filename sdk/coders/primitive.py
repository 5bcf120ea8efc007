"""Coders of single values.  The formats are Beam's."""

from __future__ import annotations

import struct
from typing import Any, Generic

from ..errors import SerializationError
from ..type_variables import T
from .coder import Coder, encode_varint, read_varint, shortened, take, wrong_type

_double = struct.Struct(">d")
_INT64 = 1 << 63
_UINT64 = 1 << 64


class SelfDelimitingCoder(Coder, Generic[T]):
    """A coder whose encodings delimit themselves, so that the nested form is the same."""

    def decode(self, encoded: bytes) -> T:
        value, end = self.read_nested(encoded, 0)
        if end != len(encoded):
            raise SerializationError(f"{self!r} found {len(encoded) - end} bytes too many in {shortened(encoded)}")
        return value

    def encode_nested(self, value: Any) -> bytes:
        return self.encode(value)

    def read_nested(self, encoded: bytes, start: int) -> tuple[T, int]:
        raise NotImplementedError


class StrUtf8Coder(Coder):
    """Strings, as UTF-8.

    >>> StrUtf8Coder().encode("é")
    b'\\xc3\\xa9'
    """

    def encode(self, value: Any) -> bytes:
        try:
            return str.encode(value, "utf-8")
        except TypeError:
            raise wrong_type(self, "str", value) from None

    def decode(self, encoded: bytes) -> str:
        return encoded.decode("utf-8")

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return str


class ToBytesCoder(Coder):
    """Any value, encoded but never decoded: bytes unchanged, other values as their `str` in UTF-8.

    >>> ToBytesCoder().encode(12)
    b'12'
    """

    def encode(self, value: Any) -> bytes:
        return value if isinstance(value, bytes) else str(value).encode("utf-8")

    def decode(self, encoded: bytes) -> Any:
        raise NotImplementedError("ToBytesCoder only encodes: the type of a value is not in its bytes")

    def is_deterministic(self) -> bool:
        return True


class BytesCoder(Coder):
    """Bytes, unchanged.

    >>> BytesCoder().encode(b"a"), BytesCoder().encode_nested(b"a")
    (b'a', b'\\x01a')
    """

    def encode(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        raise wrong_type(self, "bytes", value)

    def decode(self, encoded: bytes) -> bytes:
        return encoded

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return bytes


class BooleanCoder(SelfDelimitingCoder[bool]):
    """True and False, as one byte.

    >>> BooleanCoder().encode(True)
    b'\\x01'
    """

    def encode(self, value: Any) -> bytes:
        if value is True or value is False:
            return b"\x01" if value else b"\x00"
        raise wrong_type(self, "bool", value)

    def read_nested(self, encoded: bytes, start: int) -> tuple[bool, int]:
        byte = take(encoded, start, start + 1)
        if byte > b"\x01":
            raise SerializationError(f"{self!r} expected byte 0 or 1, not {byte!r}")
        return byte == b"\x01", start + 1

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return bool


class VarIntCoder(SelfDelimitingCoder[int]):
    """Integers of 64 bits, in one to ten bytes; small non-negative ones take the fewest.

    >>> VarIntCoder().encode(300)
    b'\\xac\\x02'
    """

    def encode(self, value: Any) -> bytes:
        try:
            if -_INT64 <= value < _INT64:
                return encode_varint(int(value) & (_UINT64 - 1))
        except TypeError:
            pass
        raise wrong_type(self, "int of at most 64 bits", value)

    def read_nested(self, encoded: bytes, start: int) -> tuple[int, int]:
        n, end = read_varint(encoded, start)
        return (n - _UINT64 if n >= _INT64 else n), end

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return int


class FloatCoder(SelfDelimitingCoder[float]):
    """Floats, as eight bytes, big-endian.

    >>> FloatCoder().decode(FloatCoder().encode(0.5))
    0.5
    """

    def encode(self, value: Any) -> bytes:
        try:
            return _double.pack(value)
        except (struct.error, OverflowError, TypeError):
            raise wrong_type(self, "float", value) from None

    def read_nested(self, encoded: bytes, start: int) -> tuple[float, int]:
        return _double.unpack(take(encoded, start, start + 8))[0], start + 8

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return float


class SingletonCoder(SelfDelimitingCoder[T]):
    """One constant value, encoded as no bytes.

    >>> SingletonCoder("only").decode(b"")
    'only'
    """

    def __init__(self, value: T) -> None:
        self._value = value

    def encode(self, value: Any) -> bytes:
        return b""

    def read_nested(self, encoded: bytes, start: int) -> tuple[T, int]:
        return self._value, start

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return type(self._value)
