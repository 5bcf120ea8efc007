"""Coders of any value: by pickle, cloudpickle, or a tag and a simple value."""

from __future__ import annotations

import base64
import pickle
import struct
from typing import Any

from ..errors import InvalidKeyError, SerializationError
from ..user_code.error_text import text_or_class
from .coder import Coder, encode_varint, read_varint, shortened, take


class PickleCoder(Coder):
    """Any value, by pickle, or by cloudpickle for values that pickle refuses, such as a lambda.

    >>> PickleCoder().decode(PickleCoder().encode({"a": 1}))
    {'a': 1}
    """

    def encode(self, value: Any) -> bytes:
        try:
            return pickle.dumps(value, 5)
        except Exception:
            return CloudpickleCoder().encode(value)

    def decode(self, encoded: bytes) -> Any:
        return pickle.loads(encoded)


class CloudpickleCoder(Coder):
    """Any value, by cloudpickle: functions and the classes of `__main__` are pickled by value.

    >>> CloudpickleCoder().decode(CloudpickleCoder().encode(lambda n: n + 1))(1)
    2
    """

    def encode(self, value: Any) -> bytes:
        from ..user_code.pickler import pickled

        try:
            return pickled(value)
        except Exception as error:
            kind = type(value).__name__
            raise SerializationError(
                f"{shortened(value)} (of type {kind}) can't be pickled: {text_or_class(error)}"
            ) from error

    def decode(self, encoded: bytes) -> Any:
        return pickle.loads(encoded)


class DillCoder(CloudpickleCoder):
    """Beam's name of the coder that pickles functions by value; it uses cloudpickle, and not dill."""


class Base64PickleCoder(PickleCoder):
    """Like `PickleCoder`, in base 64, so that the bytes have no line breaks and fit a text file."""

    def encode(self, value: Any) -> bytes:
        return base64.b64encode(super().encode(value))

    def decode(self, encoded: bytes) -> Any:
        return super().decode(base64.b64decode(encoded))


_NONE, _FALSE, _TRUE, _INT, _FLOAT, _STR, _BYTES, _TUPLE, _LIST, _PICKLED = range(10)
_double = struct.Struct(">d")


class FastPrimitivesCoder(Coder):
    """Any value: a byte for its type and the value if its type is simple, else its pickle.

    Simple types are None, bool, int, float, str, bytes, and tuples and lists of any values.  The registry's coder for
    unregistered types.

    >>> FastPrimitivesCoder().decode(FastPrimitivesCoder().encode(("a", [1, None])))
    ('a', [1, None])
    """

    def __init__(self, fallback_coder: Coder | None = None) -> None:
        self._fallback = fallback_coder or PickleCoder()

    def encode(self, value: Any) -> bytes:
        out = bytearray()
        self._write(value, out)
        return bytes(out)

    def decode(self, encoded: bytes) -> Any:
        value, end = self._read(encoded, 0)
        if end != len(encoded):
            raise SerializationError(f"{self!r} found {len(encoded) - end} bytes too many in {shortened(encoded)}")
        return value

    def encode_nested(self, value: Any) -> bytes:
        return self.encode(value)

    def read_nested(self, encoded: bytes, start: int) -> tuple[Any, int]:
        return self._read(encoded, start)

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return DeterministicFastPrimitivesCoder(step_label, error_message)

    # Exact types only, so that a bool isn't decoded as an int, or a named tuple as a tuple.
    def _write(self, value: Any, out: bytearray) -> None:
        kind = type(value)
        if kind is str:
            _write_block(_STR, value.encode("utf-8", "surrogatepass"), out)
        elif kind is int:
            _write_block(_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True), out)
        elif kind is float:
            out.append(_FLOAT)
            out += _double.pack(value)
        elif kind is tuple or kind is list:
            out.append(_TUPLE if kind is tuple else _LIST)
            out += encode_varint(len(value))
            for part in value:
                self._write(part, out)
        elif value is None:
            out.append(_NONE)
        elif kind is bool:
            out.append(_TRUE if value else _FALSE)
        elif kind is bytes:
            _write_block(_BYTES, value, out)
        else:
            self._write_other(value, out)

    def _write_other(self, value: Any, out: bytearray) -> None:
        _write_block(_PICKLED, self._fallback.encode(value), out)

    def _read(self, encoded: bytes, start: int) -> tuple[Any, int]:
        tag = take(encoded, start, start + 1)[0]
        start += 1
        if tag <= _TRUE:
            return (None, False, True)[tag], start
        if tag == _FLOAT:
            return _double.unpack(take(encoded, start, start + 8))[0], start + 8
        length, start = read_varint(encoded, start)
        if tag in (_TUPLE, _LIST):
            parts = []
            for _ in range(length):
                part, start = self._read(encoded, start)
                parts.append(part)
            return (tuple(parts) if tag == _TUPLE else parts), start
        return self._block(tag, take(encoded, start, start + length)), start + length

    def _block(self, tag: int, block: bytes) -> Any:
        if tag == _STR:
            return block.decode("utf-8", "surrogatepass")
        if tag == _INT:
            return int.from_bytes(block, "big", signed=True)
        if tag == _BYTES:
            return block
        if tag == _PICKLED:
            return self._fallback.decode(block)
        raise SerializationError(f"{self!r} knows no type {tag}; the bytes were written by another coder")


def _write_block(tag: int, block: bytes, out: bytearray) -> None:
    out.append(tag)
    out += encode_varint(len(block))
    out += block


class DeterministicFastPrimitivesCoder(FastPrimitivesCoder):
    """Like `FastPrimitivesCoder`, of simple types only, since pickles of equal values may differ.

    Raises `InvalidKeyError`, naming the step, for other types.

    >>> import penstock as beam
    >>> coder = beam.coders.DeterministicFastPrimitivesCoder("Group")
    >>> coder.decode(coder.encode(("a", 1)))
    ('a', 1)
    """

    def __init__(self, step_label: str, error_message: str | None = None) -> None:
        super().__init__()
        self._step_label = step_label
        self._error_message = error_message

    def is_deterministic(self) -> bool:
        return True

    def as_deterministic_coder(self, step_label: str, error_message: str | None = None) -> Coder:
        return self

    def _write_other(self, value: Any, out: bytearray) -> None:
        raise InvalidKeyError(
            self._error_message
            or f"{self._step_label}: {shortened(value)} (a {type(value).__name__}) has no deterministic encoding: "
            "use values of simpler types, or register a deterministic coder for them"
        )
