"""Digests of values: the same in every process for values that are equal."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from .coders.key_encoding import encode_key
from .element_wrappers import unwrapped
from .errors import InvalidKeyError


def digest_of(values: Iterable[Any]) -> str:
    """Return the number of values, and a digest of them in their order.

    Event times of `TimestampedValue`s are included.  Values without an encoding that is the same in every process are
    represented by their type.

    >>> digest_of([1, "a"]), digest_of([[1, {"a"}], {"b": None}]) == digest_of([[1, {"a"}], {"b": None}])
    ('2 values, digest 44de321a', True)
    """
    if isinstance(values, range):
        return repr(values)
    digest, count = blake2b(digest_size=4), 0
    for value in values:
        count += 1
        digest.update(_encoded(unwrapped(value)[:2]))
    return f"{count} value{'s' * (count != 1)}, digest {digest.hexdigest()}"


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
