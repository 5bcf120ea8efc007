"""Coder: the encoding of a type's values as bytes."""

from __future__ import annotations

from typing import Any, Self

from ..errors import InvalidKeyError, SerializationError


class Coder:
    """Base class of coders, which encode values as bytes and decode them.

    A subclass defines `encode` and `decode`, and `is_deterministic` if equal values always have equal bytes.
    Registered for a type (`registry.register_coder`), a deterministic coder makes values of that type usable as keys.

    A coder has two encodings of a value: alone (`encode`), where the value ends with the bytes, and as a part of a
    larger encoding (`encode_nested`), which delimits itself.  By default the second is the first with a length prefix.

    >>> class Upper(Coder):
    ...     def encode(self, value):
    ...         return value.upper().encode()
    ...     def decode(self, encoded):
    ...         return encoded.decode()
    >>> Upper().encode("ab"), Upper().encode_nested("ab")
    (b'AB', b'\\x02AB')
    """

    def __class_getitem__(cls, item: Any) -> type[Self]:
        # The type of values, as in `ListCoder[int]`, is for type checkers: a coder made by an alias would remember it.
        return cls

    def encode(self, value: Any) -> bytes:
        """Return the value as bytes.  Raises `SerializationError` for a value of another type."""
        raise NotImplementedError(f"{self!r} doesn't define encode")

    def decode(self, encoded: bytes) -> Any:
        """Return the value of encoded bytes.  Raises `SerializationError` for malformed bytes."""
        raise NotImplementedError(f"{self!r} doesn't define decode")

    def encode_nested(self, value: Any) -> bytes:
        """Return the value as bytes that delimit themselves."""
        encoded = self.encode(value)
        return encode_varint(len(encoded)) + encoded

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        """Return the value whose nested form starts at `start`, and the end of that form."""
        length, start = read_varint(encoded, start)
        end = start + length
        return self.decode(take(encoded, start, end)), end

    def decode_nested(self, encoded: bytes) -> Any:
        """Return the value of a nested form."""
        return self.read_nested(encoded, 0)[0]

    def is_deterministic(self) -> bool:
        """Return whether equal values have equal bytes, in every process and on every machine."""
        return False

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        """Return a deterministic coder of the same values, by default this one.

        Raises `InvalidKeyError`, naming `step_label`, if there is none.
        """
        if self.is_deterministic():
            return self
        raise InvalidKeyError(
            error_message
            or f"{step_label}: {self!r} is not deterministic, so it can't encode keys: "
            "use keys of simpler types, or register a deterministic coder for theirs"
        )

    def estimate_size(self, value: Any) -> int:
        """Return the approximate encoded size of a value in bytes."""
        return len(self.encode(value))

    def get_estimated_size_and_observables(self, value: Any, nested: bool = False) -> tuple[int, list[Any]]:
        """Return the encoded size of a value in bytes, and no observables, which are Beam's."""
        return len(self.encode_nested(value)) if nested else self.estimate_size(value), []

    def encode_to_stream(self, value: Any, stream: Any, nested: bool) -> None:
        """Write a value to one of Beam's output streams."""
        stream.write(self.encode_nested(value) if nested else self.encode(value))

    def decode_from_stream(self, stream: Any, nested: bool) -> Any:
        """Read a value from one of Beam's input streams; if not nested, all that is left."""
        if not nested and type(self).read_nested is Coder.read_nested:
            return self.decode(stream.read_all(False))
        value, stream.pos = self.read_nested(stream.data, stream.pos)
        return value

    def get_impl(self) -> Any:
        """Return an object with the methods that encode and decode: the coder itself."""
        return self

    def is_kv_coder(self) -> bool:
        """Return whether the values are pairs, whose parts have coders of their own."""
        return False

    def to_type_hint(self) -> Any:
        """Return the type of the values."""
        return Any

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> Coder:
        """Return the coder of this class for a type hint.  Called by the registry."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.__dict__.values()))})"


class FastCoder(Coder):
    """Base class of coders whose `_create_impl` returns an object with the methods `encode` and `decode`.

    >>> class Text(FastCoder):
    ...     def _create_impl(self):
    ...         return StrUtf8Coder()
    >>> from penstock.sdk.coders import StrUtf8Coder
    >>> Text().encode("ab"), Text().decode(b"ab")
    (b'ab', 'ab')
    """

    def _create_impl(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} doesn't define _create_impl")

    def get_impl(self) -> Any:
        """Return the object that encodes and decodes values."""
        return self._create_impl()

    def encode(self, value: Any) -> bytes:
        return self.get_impl().encode(value)  # type: ignore[no-any-return]

    def decode(self, encoded: bytes) -> Any:
        return self.get_impl().decode(encoded)


def encode_varint(n: int) -> bytes:
    """Encode a non-negative whole number in groups of seven bits, the least significant first.

    >>> encode_varint(300)
    b'\\xac\\x02'
    """
    if n < 128:
        return bytes((n,))
    groups = bytearray()
    while n > 127:
        groups.append(n & 127 | 128)
        n >>= 7
    groups.append(n)
    return bytes(groups)


def read_varint(encoded: bytes, start: int) -> tuple[int, int]:
    """Return the number that starts at `start`, and its end.

    >>> read_varint(b'\\xac\\x02', 0)
    (300, 2)
    """
    n = shift = 0
    while True:
        if start >= len(encoded):
            raise SerializationError(f"the encoded number in {shortened(encoded)} has no end")
        group = encoded[start]
        start += 1
        n |= (group & 127) << shift
        if group < 128:
            return n, start
        shift += 7


def take(encoded: bytes, start: int, end: int) -> bytes:
    """Return `encoded[start:end]`.  Raises `SerializationError` if there are too few bytes."""
    if end > len(encoded):
        raise SerializationError(f"expected {end - start} bytes from byte {start} of {shortened(encoded)}")
    return encoded[start:end]


def wrong_type(coder: Coder, expected: str, value: Any) -> SerializationError:
    """Return the error for a value of a wrong type.

    >>> print(wrong_type(Coder(), "str", 5))
    Coder() encodes str, not 5 (an int)
    """
    kind = type(value).__name__
    article = "an" if kind[0] in "aeiou" else "a"
    return SerializationError(f"{coder!r} encodes {expected}, not {shortened(value)} ({article} {kind})")


def shortened(value: Any, limit: int = 60) -> str:
    """Return a `repr` of at most `limit` characters, for messages."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<a {type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
