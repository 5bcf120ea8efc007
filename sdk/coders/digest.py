"""Digests of values: the same in every process for values that are equal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from ..elements.element_wrappers import unwrapped
from ..errors import InvalidKeyError
from .key_encoding import encode_key

# The values that are encoded one by one.  Of the others, so many plain ones at a time take a tenth of the time.
_FIRST, _CHUNK = 10_000, 10_000
_DEPTH = 4
_PLAIN = {str, int, float, bool, bytes, type(None)}


def digest_of(values: Iterable[Any]) -> str:
    """Return the number of values, and a digest of them in their order.

    Event times of `TimestampedValue`s are included.  Values without an encoding that is the same in every process are
    represented by their type.

    >>> digest_of([1, "a"]), digest_of([[1, {"a"}], {"b": None}]) == digest_of([[1, {"a"}], {"b": None}])
    ('2 values, digest 44de321a', True)
    """
    if isinstance(values, range):
        return repr(values)
    # Loads a library that most pipelines don't need.
    from hashlib import blake2b

    digest, count = blake2b(digest_size=4), 0
    remaining = iter(values)
    while chunk := list(islice(remaining, _CHUNK)):
        plain = _plain_encoded(chunk) if count >= _FIRST else None
        for encoded in [_encoded(unwrapped(value)[:2]) for value in chunk] if plain is None else [plain]:
            digest.update(encoded)
        count += len(chunk)
    return f"{count} value{'s' * (count != 1)}, digest {digest.hexdigest()}"


def _plain_encoded(values: list[Any]) -> bytes | None:
    """Encode plain values, and tuples and lists of them, at once; return None if there are others."""
    level = values
    for _ in range(_DEPTH):
        nested = set(map(type, level)) - _PLAIN
        if not nested:
            try:
                import msgspec

                return msgspec.msgpack.encode(values)
            except (OverflowError, UnicodeEncodeError):
                return None
        if not nested <= {tuple, list}:
            return None
        level = list(chain.from_iterable(value for value in level if type(value) in nested))
    return None


def _encoded(value: Any) -> bytes:
    kind = type(value)
    if kind in (list, tuple):
        return b"(%d:%b)" % (len(value), b"".join(map(_encoded, value)))
    if kind is dict:
        return b"{%d:%b}" % (len(value), b"".join(_encoded(pair) for pair in value.items()))
    if kind in (set, frozenset):
        return b"<%d:%b>" % (len(value), b"".join(sorted(map(_encoded, value))))
    try:
        encoded = encode_key(value)
    except InvalidKeyError:
        encoded = kind.__qualname__.encode()
    return b"%d:%b" % (len(encoded), encoded)
