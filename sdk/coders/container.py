"""Coders of composite values.  The formats are Beam's."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, overload

from ..type_variables import A, B, K, T
from .coder import Coder, encode_varint, read_varint, take, wrong_type
from .primitive import SelfDelimitingCoder

if TYPE_CHECKING:
    from ..static_types import CoderOf

_count = struct.Struct(">i")


class NullableCoder(SelfDelimitingCoder[T | None], Generic[T]):
    """None, or a value of another coder behind a byte 1.

    >>> from penstock.sdk.coders import VarIntCoder
    >>> NullableCoder(VarIntCoder()).encode(5), NullableCoder(VarIntCoder()).encode(None)
    (b'\\x01\\x05', b'\\x00')
    """

    def __init__(self, value_coder: CoderOf[T]) -> None:
        self._value_coder: Any = value_coder

    def encode(self, value: Any) -> bytes:
        return b"\x00" if value is None else b"\x01" + self._value_coder.encode_nested(value)

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        if take(encoded, start, start + 1) == b"\x00":
            return None, start + 1
        return self._value_coder.read_nested(encoded, start + 1)  # type: ignore[no-any-return]

    def is_deterministic(self) -> bool:
        return bool(self._value_coder.is_deterministic())

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return NullableCoder(self._value_coder.as_deterministic_coder(step_label, error_message))

    def to_type_hint(self) -> Any:
        return self._value_coder.to_type_hint() | None if self.is_deterministic() else Any


class TupleCoder(Coder, Generic[T]):
    """Tuples of a fixed length, with a coder for each item.

    >>> from penstock.sdk.coders import StrUtf8Coder, VarIntCoder
    >>> TupleCoder([StrUtf8Coder(), VarIntCoder()]).encode(("ab", 3))
    b'\\x02ab\\x03'
    """

    # Type checkers know the items of pairs.
    @overload
    def __init__(self: TupleCoder[tuple[A, B]], components: tuple[CoderOf[A], CoderOf[B]]) -> None: ...
    @overload
    def __init__(self: TupleCoder[tuple[Any, ...]], components: Iterable[CoderOf[Any]]) -> None: ...
    def __init__(self, components: Any) -> None:
        self._coders: tuple[Coder, ...] = tuple(components)

    def coders(self) -> tuple[Coder, ...]:
        """Return the coders, in order."""
        return self._coders

    def encode(self, value: Any) -> bytes:
        return self._join(value, nested=False)

    def encode_nested(self, value: Any) -> bytes:
        return self._join(value, nested=True)

    def _join(self, value: Any, nested: bool) -> bytes:
        if not isinstance(value, Sequence) or len(value) != len(self._coders):
            raise wrong_type(self, f"tuples of {len(self._coders)}", value)
        parts = [coder.encode_nested(part) for coder, part in zip(self._coders, value)]
        if parts and not nested:
            parts[-1] = self._coders[-1].encode(value[-1])
        return b"".join(parts)

    def decode(self, encoded: bytes) -> T:
        items: Any = ()
        if self._coders:
            parts, start = self._read(self._coders[:-1], encoded, 0)
            items = (*parts, self._coders[-1].decode(encoded[start:]))
        return items  # type: ignore[no-any-return]

    def read_nested(self, encoded: bytes, start: int) -> tuple[T, int]:
        parts, end = self._read(self._coders, encoded, start)
        items: Any = tuple(parts)
        return items, end

    @staticmethod
    def _read(coders: Iterable[Coder], encoded: bytes, start: int) -> tuple[list[Any], int]:
        parts = []
        for coder in coders:
            part, start = coder.read_nested(encoded, start)
            parts.append(part)
        return parts, start

    def is_deterministic(self) -> bool:
        return all(coder.is_deterministic() for coder in self._coders)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return TupleCoder(coder.as_deterministic_coder(step_label, error_message) for coder in self._coders)

    def is_kv_coder(self) -> bool:
        """Return whether the values are pairs."""
        return len(self._coders) == 2

    def key_coder(self) -> Coder:
        """Return the coder of a pair's first item."""
        return self._coders[0]

    def value_coder(self) -> Coder:
        """Return the coder of a pair's second item."""
        return self._coders[1]

    def to_type_hint(self) -> Any:
        return tuple[tuple(coder.to_type_hint() for coder in self._coders)]  # type: ignore[misc]


class IterableCoder(SelfDelimitingCoder[list[T]], Generic[T]):
    """Iterables of values of one coder, which are decoded as lists.

    >>> from penstock.sdk.coders import VarIntCoder
    >>> IterableCoder(VarIntCoder()).encode(range(2))
    b'\\x00\\x00\\x00\\x02\\x00\\x01'
    """

    def __init__(self, elem_coder: CoderOf[T]) -> None:
        self._elem_coder: Any = elem_coder

    def encode(self, value: Any) -> bytes:
        try:
            parts = [self._elem_coder.encode_nested(part) for part in value]
        except TypeError:
            raise wrong_type(self, "iterables", value) from None
        return _count.pack(len(parts)) + b"".join(parts)

    def read_nested(self, encoded: bytes, start: int) -> tuple[list[T], int]:
        (count,) = _count.unpack(take(encoded, start, start + 4))
        parts: list[T] = []
        start += 4
        for _ in range(count):
            part, start = self._elem_coder.read_nested(encoded, start)
            parts.append(part)
        return parts, start

    def is_deterministic(self) -> bool:
        return bool(self._elem_coder.is_deterministic())

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return type(self)(self._elem_coder.as_deterministic_coder(step_label, error_message))

    def to_type_hint(self) -> Any:
        return Iterable[self._elem_coder.to_type_hint()]  # type: ignore[misc]


class TupleSequenceCoder(IterableCoder[T]):
    """Tuples of any length, whose items have one coder, in the format of `IterableCoder`.

    >>> from penstock.sdk.coders import VarIntCoder
    >>> TupleSequenceCoder(VarIntCoder()).decode(b'\\x00\\x00\\x00\\x02\\x00\\x01')
    (0, 1)
    """

    if TYPE_CHECKING:

        def decode(self, encoded: bytes) -> tuple[T, ...]: ...  # type: ignore[override]

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        items, end = super().read_nested(encoded, start)
        return tuple(items), end

    def to_type_hint(self) -> Any:
        return tuple[self._elem_coder.to_type_hint(), ...]  # type: ignore[misc]


class ListCoder(IterableCoder[T]):
    """Lists, in the format of `IterableCoder`.

    >>> import penstock as beam
    >>> coder = beam.coders.ListCoder(beam.coders.VarIntCoder())
    >>> coder.decode(coder.encode([1, 2]))
    [1, 2]
    """

    def to_type_hint(self) -> Any:
        return list[self._elem_coder.to_type_hint()]  # type: ignore[misc]


class MapCoder(SelfDelimitingCoder[dict[K, T]], Generic[K, T]):
    """Dictionaries.  Deterministic only as `as_deterministic_coder`, which sorts the encoded keys.

    >>> from penstock.sdk.coders import StrUtf8Coder, VarIntCoder
    >>> MapCoder(StrUtf8Coder(), VarIntCoder()).encode({"a": 1})
    b'\\x00\\x00\\x00\\x01\\x01a\\x01'
    """

    def __init__(self, key_coder: CoderOf[K], value_coder: CoderOf[T], is_sorted: bool = False) -> None:
        self._key_coder: Any = key_coder
        self._value_coder: Any = value_coder
        self._is_sorted = is_sorted

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, Mapping):
            raise wrong_type(self, "dictionaries", value)
        key, val = self._key_coder.encode_nested, self._value_coder.encode_nested
        entries = [key(k) + val(v) for k, v in value.items()]
        if self._is_sorted:
            entries.sort()
        return _count.pack(len(entries)) + b"".join(entries)

    def read_nested(self, encoded: bytes, start: int) -> tuple[dict[K, T], int]:
        (count,) = _count.unpack(take(encoded, start, start + 4))
        entries: dict[K, T] = {}
        start += 4
        for _ in range(count):
            key, start = self._key_coder.read_nested(encoded, start)
            entries[key], start = self._value_coder.read_nested(encoded, start)
        return entries, start

    def is_deterministic(self) -> bool:
        return self._is_sorted and bool(self._key_coder.is_deterministic() and self._value_coder.is_deterministic())

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return MapCoder(
            self._key_coder.as_deterministic_coder(step_label, error_message),
            self._value_coder.as_deterministic_coder(step_label, error_message),
            is_sorted=True,
        )

    def to_type_hint(self) -> Any:
        return dict[self._key_coder.to_type_hint(), self._value_coder.to_type_hint()]  # type: ignore[misc]


class LengthPrefixCoder(SelfDelimitingCoder[T]):
    """The values of another coder, each behind its length.

    >>> from penstock.sdk.coders import FloatCoder
    >>> LengthPrefixCoder(FloatCoder()).encode(0.0)
    b'\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00'
    """

    def __init__(self, value_coder: CoderOf[T]) -> None:
        self._value_coder: Any = value_coder

    def encode(self, value: Any) -> bytes:
        encoded: bytes = self._value_coder.encode(value)
        return encode_varint(len(encoded)) + encoded

    def read_nested(self, encoded: bytes, start: int) -> tuple[T, int]:
        length, start = read_varint(encoded, start)
        return self._value_coder.decode(take(encoded, start, start + length)), start + length

    def is_deterministic(self) -> bool:
        return bool(self._value_coder.is_deterministic())

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return LengthPrefixCoder(self._value_coder.as_deterministic_coder(step_label, error_message))

    def to_type_hint(self) -> Any:
        return self._value_coder.to_type_hint()
