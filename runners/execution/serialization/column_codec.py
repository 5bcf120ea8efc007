"""Columns as bytes, for elements that leave the process.

msgspec encodes a column whose values are all of one type that it returns unchanged; that is three to eight times as
fast as pickle.  Any other column is pickled.  (MessagePack would turn tuples into lists and NumPy's scalars into
floats, so only exact types count.)
"""

from __future__ import annotations

import copyreg
import marshal
import pickle
from functools import lru_cache, partial
from typing import Any

import msgspec

from ....sdk.user_code.serialization import dumps
from ....windowing import IntervalWindow

_EXACT = (str, int, float, bytes, bool, type(None))
_encoder = msgspec.msgpack.Encoder()
_decode = msgspec.msgpack.Decoder().decode

_MSGSPEC = b"m"
# Numbers that were marshalled, by earlier versions.
_NUMBERS = b"#"
PICKLE = b"p"
_TUPLES = b"t"
_NAMED_TUPLES = b"n"
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
                return PICKLE + pickled(values)
        if kind is IntervalWindow or (kind is tuple and depth and values[0] and len(set(map(len, values))) == 1):
            # A column of tuples of one length is one column for each of their items.
            columns = [encode_column(list(column), depth - 1) for column in zip(*values, strict=True)]
            return (_INTERVALS if kind is IntervalWindow else _TUPLES) + _encoder.encode(columns)
        if depth and _is_named_tuple(kind):
            columns = [encode_column(list(column), depth - 1) for column in zip(*values, strict=True)]
            return _NAMED_TUPLES + _encoder.encode([_pickled_type(kind), *columns])
    return PICKLE + pickled(values)


@lru_cache(maxsize=1024)
def _is_named_tuple(kind: type) -> bool:
    """Return whether instances consist of the items of a tuple, and are pickled as such."""
    return (
        kind.__bases__ == (tuple,)
        and bool(getattr(kind, "_fields", ()))
        and hasattr(kind, "_make")
        and kind.__dictoffset__ == 0
        and vars(kind).keys().isdisjoint(("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"))
        and kind not in copyreg.dispatch_table
    )


# A class that can't be imported by its name is pickled by value, which takes longer than a column.
@lru_cache(maxsize=256)
def _pickled_type(kind: type) -> bytes:
    return pickled(kind)


_unpickled_type = lru_cache(maxsize=256)(pickle.loads)


def pickled(values: Any) -> bytes:
    """Return a pickle.  Raises `SerializationError` for a value that can't be pickled."""
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
    if kind == _NUMBERS:
        return marshal.loads(rest)  # type: ignore[no-any-return]
    if kind == _TUPLES:
        return list(zip(*map(decode_column, _decode(rest)), strict=True))
    if kind == _NAMED_TUPLES:
        of, *columns = _decode(rest)
        return list(map(partial(tuple.__new__, _unpickled_type(of)), zip(*map(decode_column, columns), strict=True)))
    if kind == _INTERVALS:
        return list(map(IntervalWindow.of_micros, *map(decode_column, _decode(rest))))
    return pickle.loads(rest)  # type: ignore[no-any-return]
