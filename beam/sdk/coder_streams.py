"""Beam's streams of bytes, which coders of users write and read value by value.

>>> out = OutputStream()
>>> out.write_var_int64(300)
>>> out.write(b"ab", nested=True)
>>> read = InputStream(out.get())
>>> read.read_var_int64(), read.read_all(nested=True), read.size()
(300, b'ab', 0)
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ...sdk.coders.coder import encode_varint, read_varint, take

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UINT64: Final = struct.Struct(">Q")
_FLOAT: Final = struct.Struct(">f")
_DOUBLE: Final = struct.Struct(">d")


class OutputStream:
    """Bytes that are appended."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, b: bytes, nested: bool = False) -> None:
        """Append bytes; nested, their number goes first."""
        if nested:
            self._data += encode_varint(len(b))
        self._data += b

    def write_byte(self, val: int) -> None:
        """Append one byte."""
        self._data.append(val)

    def write_var_int64(self, v: int) -> None:
        """Append a number of 64 bits, in groups of seven.  Raises `ValueError` for a larger one."""
        if not -(2**63) <= v < 2**63:
            raise ValueError(f"expected an integer of 64 bits, got {v}")
        self._data += encode_varint(v % 2**64)

    def write_var_int32(self, v: int) -> None:
        """Append a number of 32 bits, in groups of seven."""
        self._data += encode_varint(v % 2**32)

    def write_bigendian_int64(self, v: int) -> None:
        """Append 8 bytes."""
        self._data += _INT64.pack(v)

    def write_bigendian_uint64(self, v: int) -> None:
        """Append 8 bytes, of a number that isn't negative."""
        self._data += _UINT64.pack(v)

    def write_bigendian_int32(self, v: int) -> None:
        """Append 4 bytes."""
        self._data += _INT32.pack(v)

    def write_bigendian_int16(self, v: int) -> None:
        """Append 2 bytes."""
        self._data += _INT16.pack(v)

    def write_bigendian_double(self, v: float) -> None:
        """Append the 8 bytes of a float."""
        self._data += _DOUBLE.pack(v)

    def write_bigendian_float(self, v: float) -> None:
        """Append the 4 bytes of a float of single precision."""
        self._data += _FLOAT.pack(v)

    def get(self) -> bytes:
        """Return all bytes."""
        return bytes(self._data)

    def size(self) -> int:
        """Return the number of bytes."""
        return len(self._data)


class ByteCountingOutputStream(OutputStream):
    """An output whose size is asked for."""

    def get_count(self) -> int:
        """Return the number of bytes."""
        return self.size()


class InputStream:
    """Bytes that are read from the beginning.  Reading behind the end raises `SerializationError`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    def size(self) -> int:
        """Return the number of bytes that are left."""
        return len(self.data) - self.pos

    def read(self, size: int) -> bytes:
        """Return so many bytes."""
        found = take(self.data, self.pos, self.pos + size)
        self.pos += size
        return found

    def read_all(self, nested: bool) -> bytes:
        """Return the bytes of `write`; if not nested, all that are left."""
        return self.read(self._varint() if nested else self.size())

    def read_byte(self) -> int:
        """Return one byte."""
        return self.read(1)[0]

    def read_var_int64(self) -> int:
        """Return the number of `write_var_int64`."""
        number = self._varint()
        return number - 2**64 if number >= 2**63 else number

    def read_var_int32(self) -> int:
        """Return the number of `write_var_int32`."""
        number = self._varint()
        return number - 2**32 if number >= 2**31 else number

    def read_bigendian_int64(self) -> int:
        """Return the number of 8 bytes."""
        return int(self._unpacked(_INT64))

    def read_bigendian_uint64(self) -> int:
        """Return the number of 8 bytes, which isn't negative."""
        return int(self._unpacked(_UINT64))

    def read_bigendian_int32(self) -> int:
        """Return the number of 4 bytes."""
        return int(self._unpacked(_INT32))

    def read_bigendian_int16(self) -> int:
        """Return the number of 2 bytes."""
        return int(self._unpacked(_INT16))

    def read_bigendian_double(self) -> float:
        """Return the float of 8 bytes."""
        return float(self._unpacked(_DOUBLE))

    def read_bigendian_float(self) -> float:
        """Return the float of 4 bytes."""
        return float(self._unpacked(_FLOAT))

    def _varint(self) -> int:
        number, self.pos = read_varint(self.data, self.pos)
        return number

    def _unpacked(self, form: struct.Struct) -> Any:
        return form.unpack(self.read(form.size))[0]


def get_varint_size(v: int) -> int:
    """Return the number of bytes of `write_var_int64`.

    >>> get_varint_size(127), get_varint_size(-1)
    (1, 10)
    """
    return len(encode_varint(v % 2**64))


def create_OutputStream() -> OutputStream:
    """Return an empty output."""
    return OutputStream()


def create_InputStream(data: bytes) -> InputStream:
    """Return an input of bytes."""
    return InputStream(data)
