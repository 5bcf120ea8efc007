"""Beam's implementations of coders, which `FastCoder._create_impl` returns.

A class of the user derives from `StreamCoderImpl`, or from `SimpleCoderImpl`.  Those of Beam's coders are penstock's
coders.

>>> class PointImpl(StreamCoderImpl):
...     def encode_to_stream(self, value, stream, nested):
...         for number in value:
...             stream.write_var_int64(number)
...     def decode_from_stream(self, stream, nested):
...         return stream.read_var_int64(), stream.read_var_int64()
>>> PointImpl().encode((1, 300)), PointImpl().decode(PointImpl().encode((1, 300)))
(b'\\x01\\xac\\x02', (1, 300))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...sdk.coders import (
    BooleanCoder,
    BytesCoder,
    FloatCoder,
    IntervalWindowCoder,
    PaneInfoCoder,
    SingletonCoder,
    StrUtf8Coder,
    TimestampCoder,
    VarIntCoder,
)
from ...sdk.coders.coder import Coder
from ...sdk.coders.numeric import (
    BigEndianShortCoder,
    BigIntegerCoder,
    ByteCoder,
    DecimalCoder,
    SinglePrecisionFloatCoder,
    VarInt32Coder,
)
from .coder_streams import (
    ByteCountingOutputStream,
    InputStream,
    OutputStream,
    create_InputStream,
    create_OutputStream,
    get_varint_size,
)

__all__ = [
    "BigEndianShortCoderImpl",
    "BigIntegerCoderImpl",
    "BooleanCoderImpl",
    "ByteCoderImpl",
    "ByteCountingOutputStream",
    "BytesCoderImpl",
    "CallbackCoderImpl",
    "CoderImpl",
    "DecimalCoderImpl",
    "FloatCoderImpl",
    "InputStream",
    "IntervalWindowCoderImpl",
    "OutputStream",
    "PaneInfoCoderImpl",
    "SimpleCoderImpl",
    "SinglePrecisionFloatCoderImpl",
    "SingletonCoderImpl",
    "StrUtf8CoderImpl",
    "StreamCoderImpl",
    "TimestampCoderImpl",
    "VarInt32CoderImpl",
    "VarIntCoderImpl",
    "create_InputStream",
    "create_OutputStream",
    "get_varint_size",
]


class CoderImpl:
    """Base class of implementations: an encoding to and from streams."""

    def encode_to_stream(self, value: Any, stream: OutputStream, nested: bool) -> None:
        """Append a value; nested, so that its end can be found."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define encode_to_stream")

    def decode_from_stream(self, stream: InputStream, nested: bool) -> Any:
        """Return the value of `encode_to_stream`."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define decode_from_stream")

    def encode(self, value: Any) -> bytes:
        """Return a value as bytes."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define encode")

    def decode(self, encoded: bytes) -> Any:
        """Return the value of bytes."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define decode")

    def encode_nested(self, value: Any) -> bytes:
        """Return a value as bytes whose end can be found."""
        out = OutputStream()
        self.encode_to_stream(value, out, True)
        return out.get()

    def decode_nested(self, encoded: bytes) -> Any:
        """Return the value of `encode_nested`."""
        return self.decode_from_stream(InputStream(encoded), True)

    def estimate_size(self, value: Any, nested: bool = False) -> int:
        """Return the size of an encoded value in bytes."""
        out = ByteCountingOutputStream()
        self.encode_to_stream(value, out, nested)
        return out.get_count()

    def get_estimated_size_and_observables(self, value: Any, nested: bool = False) -> tuple[int, list[Any]]:
        """Return the size of an encoded value, and no observables: penstock counts sizes by itself."""
        return self.estimate_size(value, nested), []


class SimpleCoderImpl(CoderImpl):
    """Base class of implementations that define `encode` and `decode`."""

    def encode_to_stream(self, value: Any, stream: OutputStream, nested: bool) -> None:
        stream.write(self.encode(value), nested)

    def decode_from_stream(self, stream: InputStream, nested: bool) -> Any:
        return self.decode(stream.read_all(nested))


class StreamCoderImpl(CoderImpl):
    """Base class of implementations that define `encode_to_stream` and `decode_from_stream`."""

    def encode(self, value: Any) -> bytes:
        out = OutputStream()
        self.encode_to_stream(value, out, False)
        return out.get()

    def decode(self, encoded: bytes) -> Any:
        return self.decode_from_stream(InputStream(encoded), False)


class CallbackCoderImpl(SimpleCoderImpl):
    """The implementation of two functions.

    >>> CallbackCoderImpl(str.encode, bytes.decode).decode(b"a")
    'a'
    """

    def __init__(
        self,
        encoder: Callable[[Any], bytes],
        decoder: Callable[[bytes], Any],
        size_estimator: Callable[[Any], int] | None = None,
    ) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._size_estimator = size_estimator

    def encode(self, value: Any) -> bytes:
        return self._encoder(value)

    def decode(self, encoded: bytes) -> Any:
        return self._decoder(encoded)

    def estimate_size(self, value: Any, nested: bool = False) -> int:
        if self._size_estimator is None:
            return super().estimate_size(value, nested)
        size = self._size_estimator(value)
        return size + get_varint_size(size) if nested else size


class _ImplOfCoder(StreamCoderImpl):
    """The implementation that is a coder of penstock."""

    coder_class: type[Coder]

    def __init__(self, *args: Any) -> None:
        self._coder = self.coder_class(*args)

    def encode_to_stream(self, value: Any, stream: OutputStream, nested: bool) -> None:
        self._coder.encode_to_stream(value, stream, nested)

    def decode_from_stream(self, stream: InputStream, nested: bool) -> Any:
        return self._coder.decode_from_stream(stream, nested)


class BooleanCoderImpl(_ImplOfCoder):
    """A byte, 0 or 1."""

    coder_class = BooleanCoder


class BytesCoderImpl(_ImplOfCoder):
    """Bytes as they are."""

    coder_class = BytesCoder


class StrUtf8CoderImpl(_ImplOfCoder):
    """Text in UTF-8."""

    coder_class = StrUtf8Coder


class FloatCoderImpl(_ImplOfCoder):
    """The 8 bytes of a float."""

    coder_class = FloatCoder


class SinglePrecisionFloatCoderImpl(_ImplOfCoder):
    """The 4 bytes of a float."""

    coder_class = SinglePrecisionFloatCoder


class VarIntCoderImpl(_ImplOfCoder):
    """An integer in groups of seven bits."""

    coder_class = VarIntCoder


class VarInt32CoderImpl(_ImplOfCoder):
    """An integer of 32 bits in groups of seven bits."""

    coder_class = VarInt32Coder


class ByteCoderImpl(_ImplOfCoder):
    """An integer of 8 bits."""

    coder_class = ByteCoder


class BigEndianShortCoderImpl(_ImplOfCoder):
    """An integer of 16 bits."""

    coder_class = BigEndianShortCoder


class BigIntegerCoderImpl(_ImplOfCoder):
    """An integer of any size."""

    coder_class = BigIntegerCoder


class DecimalCoderImpl(_ImplOfCoder):
    """A decimal number."""

    coder_class = DecimalCoder


class SingletonCoderImpl(_ImplOfCoder):
    """One value, without bytes."""

    coder_class = SingletonCoder


class TimestampCoderImpl(_ImplOfCoder):
    """A timestamp."""

    coder_class = TimestampCoder


class IntervalWindowCoderImpl(_ImplOfCoder):
    """A window of an interval."""

    coder_class = IntervalWindowCoder


class PaneInfoCoderImpl(_ImplOfCoder):
    """The info of a pane."""

    coder_class = PaneInfoCoder
