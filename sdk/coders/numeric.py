"""Coders of numbers in other formats than the default ones.  The formats are Beam's."""

from __future__ import annotations

import decimal
import operator
import struct
from typing import Any, SupportsIndex

from .coder import Coder, encode_varint, read_varint, take, wrong_type
from .primitive import SelfDelimitingCoder, VarIntCoder

_single = struct.Struct(">f")
_short = struct.Struct(">h")
_INT32 = 1 << 31


class BigIntegerCoder(Coder):
    """Integers of any size, as the fewest bytes in two's complement, big-endian.

    >>> BigIntegerCoder().encode(-129), BigIntegerCoder().decode(BigIntegerCoder().encode(2**70)) == 2**70
    (b'\\xff\\x7f', True)
    """

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, SupportsIndex):
            raise wrong_type(self, "int", value)
        number = operator.index(value)
        magnitude = number if number >= 0 else ~number
        return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)

    def decode(self, encoded: bytes) -> int:
        return int.from_bytes(encoded, "big", signed=True)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return int


class DecimalCoder(Coder):
    """Decimals: the number of digits behind the point as a `VarIntCoder`'s, and all digits as a `BigIntegerCoder`'s.

    >>> DecimalCoder().encode(decimal.Decimal("-10.25"))
    b'\\x02\\xfb\\xff'
    """

    def encode(self, value: Any) -> bytes:
        scale, digits = self._parts(value)
        return scale + BigIntegerCoder().encode(digits)

    def encode_nested(self, value: Any) -> bytes:
        scale, digits = self._parts(value)
        return scale + BigIntegerCoder().encode_nested(digits)

    def _parts(self, value: Any) -> tuple[bytes, int]:
        if not isinstance(value, decimal.Decimal) or not value.is_finite():
            raise wrong_type(self, "finite Decimal", value)
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)))
        return VarIntCoder().encode(-int(exponent)), -number if sign else number

    def decode(self, encoded: bytes) -> decimal.Decimal:
        scale, start = VarIntCoder().read_nested(encoded, 0)
        return _decimal(scale, BigIntegerCoder().decode(encoded[start:]))

    def read_nested(self, encoded: bytes, start: int) -> tuple[decimal.Decimal, int]:
        scale, start = VarIntCoder().read_nested(encoded, start)
        digits, end = BigIntegerCoder().read_nested(encoded, start)
        return _decimal(scale, digits), end

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return decimal.Decimal


def _decimal(scale: int, digits: int) -> decimal.Decimal:
    # `Decimal.scaleb` would round to the precision of the context.
    return decimal.Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


class SinglePrecisionFloatCoder(SelfDelimitingCoder[float]):
    """Floats rounded to single precision, as four bytes, big-endian.

    >>> SinglePrecisionFloatCoder().encode(0.5)
    b'?\\x00\\x00\\x00'
    """

    def encode(self, value: Any) -> bytes:
        try:
            return _single.pack(value)
        except (struct.error, OverflowError, TypeError):
            raise wrong_type(self, "float of single precision", value) from None

    def read_nested(self, encoded: bytes, start: int) -> tuple[float, int]:
        return _single.unpack(take(encoded, start, start + 4))[0], start + 4

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return float


class VarInt32Coder(SelfDelimitingCoder[int]):
    """Integers of 32 bits, in one to five bytes; small non-negative ones take the fewest.

    >>> VarInt32Coder().encode(300), VarInt32Coder().encode(-1)
    (b'\\xac\\x02', b'\\xff\\xff\\xff\\xff\\x0f')
    """

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, SupportsIndex) or not -_INT32 <= (number := operator.index(value)) < _INT32:
            raise wrong_type(self, "int of at most 32 bits", value)
        return encode_varint(number & (2 * _INT32 - 1))

    def read_nested(self, encoded: bytes, start: int) -> tuple[int, int]:
        number, end = read_varint(encoded, start)
        return (number - 2 * _INT32 if number >= _INT32 else number), end

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return int


class BigEndianShortCoder(SelfDelimitingCoder[int]):
    """Integers of 16 bits, as two bytes, big-endian.

    >>> BigEndianShortCoder().encode(-2)
    b'\\xff\\xfe'
    """

    def encode(self, value: Any) -> bytes:
        try:
            return _short.pack(value)
        except struct.error:
            raise wrong_type(self, "int of at most 16 bits", value) from None

    def read_nested(self, encoded: bytes, start: int) -> tuple[int, int]:
        return _short.unpack(take(encoded, start, start + 2))[0], start + 2

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return int


class ByteCoder(SelfDelimitingCoder[int]):
    """Numbers from 0 to 255, as one byte.

    >>> ByteCoder().encode(7)
    b'\\x07'
    """

    def encode(self, value: Any) -> bytes:
        # As Beam's coder of signed bytes, whose values are the same bits.
        if not isinstance(value, SupportsIndex) or not -128 <= (number := operator.index(value)) < 256:
            raise wrong_type(self, "int from 0 to 255", value)
        return bytes((number & 255,))

    def read_nested(self, encoded: bytes, start: int) -> tuple[int, int]:
        return take(encoded, start, start + 1)[0], start + 1

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return int
