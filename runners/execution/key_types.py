"""The types of a step's keys, in words: the state of keys must not begin anew because their type has changed.

The keys of a checkpoint are compared with those that come first after a restart.  The kinds of the encoding count
(`key_encoding.py`): `1` and `1.0` are of one type, and so are `("a", 1)` and a named tuple of these.

>>> before = KeyTypes("Sum", types_of([1, 2.5]))
>>> before.check([7, "a"])
>>> before.check(["7"])
Traceback (most recent call last):
penstock.sdk.errors.CheckpointMismatchError: Sum: its keys are of type str, and those in ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import attrs

from ...sdk.coders.key_encoding import CodedKey, coder_of, encode_key
from ...sdk.errors import CheckpointMismatchError, InvalidKeyError

# Of a tuple those of its parts.
KeyType: TypeAlias = "str | tuple[KeyType, ...]"

_NONE = "None"
_SIMPLE: dict[type, KeyType] = {
    type(None): _NONE,
    bool: "number",
    int: "number",
    float: "number",
    Decimal: "number",
    Fraction: "number",
    str: "str",
    bytes: "bytes",
}
# By the first byte of their encoding.
_ENCODED = {b"i": "number", b"f": "number", b"q": "number", b"c": "number", b"m": "number", b"s": "str", b"b": "bytes"}
_ENCODED |= {b"n": _NONE, b"u": "datetime with a time zone"}


def types_of(keys: Iterable[Any]) -> frozenset[KeyType]:
    """Return the types of some keys.

    >>> sorted(types_of(["a", 1, 2.0]))
    ['number', 'str']
    """
    keys = keys if isinstance(keys, list) else list(keys)
    kinds = set(map(type, keys))
    if kinds <= _SIMPLE.keys():
        return frozenset(_SIMPLE[kind] for kind in kinds)
    return frozenset(map(type_of, keys))


def type_of(key: Any) -> KeyType:
    """Return the type of a key.

    >>> type_of(("a", None, (1.5,)))
    ('str', 'None', ('number',))
    """
    kind = type(key)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind is CodedKey:
        coder = coder_of(key)
        return type_of(key.key) if coder is None else f"{type(key.key).__qualname__} (by {coder})"
    encoded = encode_key(key)[:1]
    if encoded == b"t":
        return tuple(map(type_of, key))
    return _ENCODED.get(encoded, kind.__qualname__)


def described(types: Collection[KeyType]) -> str:
    """Return the types for a message."""
    return " or ".join(sorted(map(_described, types)))


def _described(type: KeyType) -> str:
    return type if isinstance(type, str) else f"({', '.join(map(_described, type))})"


def _are_alike(one: KeyType, other: KeyType) -> bool:
    """Return whether keys of both types may belong together; None stands for a key that is missing."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    return one == other or _NONE in (one, other)


@attrs.define
class KeyTypes:
    """The types that a step's keys had in a checkpoint.

    Attributes:
      label: the step's.
      types: at least one.
      left: how many elements are to be compared yet, bundle by bundle.
    """

    label: str
    types: frozenset[KeyType]
    left: int = 1

    def check(self, keys: Iterable[Any]) -> None:
        """Raise `CheckpointMismatchError` if there are keys, and none of them is of one of the types."""
        try:
            found = types_of(keys)
        except InvalidKeyError:
            # It is refused with better words where it is used.
            return
        if found and not any(_are_alike(one, other) for one in found for other in self.types):
            raise CheckpointMismatchError(
                f"{self.label}: its keys are of type {described(found)}, and those in the checkpoint of type "
                f"{described(self.types)}, so that the state of each key would begin anew. Give keys the type that "
                "they had; or, if both are meant, say --allow_new_key_types to go on with both"
            )

    def check_elements(self, elements: Collection[Any]) -> None:
        """The same, of (key, value) pairs; elements that are none are for the step to refuse."""
        self.left -= len(elements)
        try:
            keys = [key for key, _ in elements]
        except (TypeError, ValueError):
            return
        self.check(keys)
