"""Columns as bytes, for elements that leave the process.

msgspec encodes a column whose values are all of one type that it returns unchanged; that is three to eight times as
fast as pickle.  Any other column is pickled.  (MessagePack would turn tuples into lists and NumPy's scalars into
floats, so only exact types count.)
"""

from __future__ import annotations

import pickle
from typing import Any

import msgspec

from ....sdk.serialization import dumps
from ....windowing import IntervalWindow

_EXACT = (str, int, float, bytes, bool, type(None))
_encoder = msgspec.msgpack.Encoder()
_decode = msgspec.msgpack.Decoder().decode

_MSGSPEC = b"m"
_PICKLE = b"p"
_TUPLES = b"t"
_INTERVALS = b"w"

# The depth of tuples within tuples that are encoded as columns within columns.
_DEPTH = 8


def encode_column(values: list[Any], depth: int = _DEPTH) -> bytes:
    """Return a column as bytes.

    Raises `SerializationError` for a value that can't be pickled.

    >>> decode_column(encode_column([1, 2])), decode_column(encode_column([(1, "a"), (2, None)]))
    ([1, 2], [(1, 'a'), (2, None)])
    """
    kinds = set(map(type, values))
    if len(kinds) == 1:
        (kind,) = kinds
        if kind in _EXACT:
            try:
                return _MSGSPEC + _encoder.encode(values)
            except (OverflowError, ValueError):
                # Integers beyond 64 bits, lone surrogates.
                return _PICKLE + _pickled(values)
        if kind is IntervalWindow or (kind is tuple and depth and values[0] and len(set(map(len, values))) == 1):
            # A column of tuples of one length is one column for each of their items.
            columns = [encode_column(list(column), depth - 1) for column in zip(*values, strict=True)]
            return (_INTERVALS if kind is IntervalWindow else _TUPLES) + _encoder.encode(columns)
    return _PICKLE + _pickled(values)


def _pickled(values: list[Any]) -> bytes:
    try:
        return pickle.dumps(values, protocol=5)
    except Exception:
        # A class or function that can't be imported by name, or not here.
        return dumps(values, advice="Elements that are shuffled have to be data: make a list of a generator, for one.")


def decode_column(data: bytes | memoryview) -> list[Any]:
    """Return the column that `encode_column` encoded."""
    view = memoryview(data)
    kind, rest = bytes(view[:1]), view[1:]
    if kind == _MSGSPEC:
        return _decode(rest)  # type: ignore[no-any-return]
    if kind == _TUPLES:
        return list(zip(*map(decode_column, _decode(rest)), strict=True))
    if kind == _INTERVALS:
        return list(map(IntervalWindow.of_micros, *map(decode_column, _decode(rest))))
    return pickle.loads(rest)  # type: ignore[no-any-return]
