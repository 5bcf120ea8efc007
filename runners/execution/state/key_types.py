"""The types of a step's keys, as text: detect a changed type, with which the state of each key would start empty.

The keys of a checkpoint are compared with the first ones after a restart.  A type is read from the encoding of a key
(`key_encoding.py`), through tuples, frozensets and the fields of records: `1` and `1.0` have one type, and so have
`("a", 1)` and a named tuple of these.

>>> before = KeyTypes("Sum", types_of([1, 2.5]))
>>> before.check([7, "a"])
>>> before.check(["7"])
Traceback (most recent call last):
penstock.sdk.errors.CheckpointMismatchError: Sum: its keys are of type str, and those in ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import attrs

from ....persistence import full_name
from ....sdk.coders.key_encoding import encode_key
from ....sdk.errors import CheckpointMismatchError, InvalidKeyError


class Composite(NamedTuple):
    """The type of a key that has parts.

    Attributes:
      name: "" of a tuple, "frozenset", or a class as module:name.
      fields: the names of a `Row`'s fields.
      parts: the types of the parts; of a frozenset, each type of its members once.
    """

    name: str
    fields: tuple[str, ...]
    parts: tuple[KeyType, ...]


# A string starts with the name of a class as module:name, or has no colon.
KeyType: TypeAlias = "str | Composite"

_NONE = "None"
_TUPLE, _FROZENSET = "", "frozenset"

# Types whose instances have keys of one type.
_SIMPLE = frozenset({type(None), bool, int, float, Decimal, Fraction, str, bytes})

# By the first byte of their encoding.
_ENCODED = dict.fromkeys("ifqcm", "number") | {
    "n": _NONE,
    "s": "str",
    "b": "bytes",
    "d": "datetime",
    "u": "datetime with a time zone",
    "D": "date",
    "h": "time",
    "H": "time with a time zone",
    "l": "timedelta",
    "U": "UUID",
    "G": "GlobalWindow",
}


def types_of(keys: Iterable[Any]) -> frozenset[KeyType]:
    """Return the types of some keys.

    Raises `InvalidKeyError` for a value that can't be a key.

    >>> sorted(types_of(["a", 1, 2.0]))
    ['number', 'str']
    """
    # Of most keys one stands for all others of its type.
    alike: dict[Any, Any] = {}
    for number, key in enumerate(keys):
        parts = tuple(map(type, key)) if type(key) is tuple else (type(key),)
        alike[(type(key), parts) if _SIMPLE.issuperset(parts) else number] = key
    return frozenset(map(type_of, alike.values()))


class SpilledTypes:
    """The types of many keys, of which most are alike.

    >>> spilled = SpilledTypes()
    >>> spilled.add([1, 2]); spilled.add(["a", 3.0])
    >>> sorted(spilled.types)
    ['number', 'str']
    """

    def __init__(self) -> None:
        self.types: set[KeyType] = set()
        self._known: set[type] = set()

    def add(self, keys: Sequence[Any]) -> None:
        """Add the types of some keys."""
        classes = set(map(type, keys))
        if not classes <= self._known:
            self.types |= types_of(keys)
            self._known |= classes & _SIMPLE


def plain_types(types: Iterable[KeyType]) -> list[Any]:
    """Return types as plain data."""
    return [one if isinstance(one, str) else (one.name, one.fields, plain_types(one.parts)) for one in types]


def types_in(plain: Iterable[Any]) -> tuple[KeyType, ...]:
    """Return the types of plain data.

    >>> types = types_of([1, ("a", 2)])
    >>> set(types_in(plain_types(types))) == types
    True
    """
    return tuple(one if isinstance(one, str) else Composite(one[0], one[1], types_in(one[2])) for one in plain)


def type_of(key: Any) -> KeyType:
    """Return the type of a key.

    Raises `InvalidKeyError` for a value that can't be a key.

    >>> described([type_of(("a", None, (1.5,), frozenset({1, 2, "a"})))])
    '(str, None, (number), frozenset of number or str)'
    """
    return _type_in(encode_key(key))


def _type_in(encoded: bytes) -> KeyType:
    """Return the type of an encoded key."""
    kind = chr(encoded[0])
    if kind in _ENCODED:
        return _ENCODED[kind]
    if kind == "t":
        return Composite(_TUPLE, (), tuple(map(_type_in, _blocks(encoded, 1))))
    if kind == "z":
        return Composite(_FROZENSET, (), tuple(sorted(set(map(_type_in, _blocks(encoded, 1))), key=str)))
    end = 5 + int.from_bytes(encoded[1:5], "big")
    name = encoded[5:end].decode()
    if kind == "k":
        coder, *_ = _blocks(encoded, end, 1)
        return f"{name} (by {coder.decode().rpartition(':')[2]})"
    if kind == "o":
        return Composite(name, (), tuple(map(_type_in, _blocks(encoded, end + 1))))
    if kind == "r":
        # The names of all fields come first.
        parts = _blocks(encoded, end + 1)
        half = len(parts) // 2
        return Composite(name, tuple(part[1:].decode() for part in parts[:half]), tuple(map(_type_in, parts[half:])))
    # An enum member, or a window.
    return name


def _blocks(encoded: bytes, start: int, number: int = -1) -> list[bytes]:
    """Return the blocks from a place on: all, or `number` of them."""
    blocks: list[bytes] = []
    while start < len(encoded) and len(blocks) != number:
        end = start + 4 + int.from_bytes(encoded[start : start + 4], "big")
        blocks.append(encoded[start + 4 : end])
        start = end
    return blocks


def described(types: Collection[KeyType], with_modules: bool = False) -> str:
    """Return the types for a message."""
    return " or ".join(sorted(_described(type, with_modules) for type in types))


def _described(type: KeyType, with_modules: bool) -> str:
    name, fields, parts = (type, (), ()) if isinstance(type, str) else type
    module, colon, shown = full_name(name).partition(":")
    if colon:
        name = f"{module}.{shown}" if with_modules else shown
    if isinstance(type, str):
        return name
    if name == _FROZENSET:
        return f"{name} of {described(parts, with_modules)}" if parts else f"empty {name}"
    shown_parts = [_described(part, with_modules) for part in parts]
    if fields:
        shown_parts = [f"{field}={part}" for field, part in zip(fields, shown_parts, strict=True)]
    return f"{name}({', '.join(shown_parts)})"


def _may_be_equal(found: Collection[KeyType], before: Collection[KeyType]) -> bool:
    """Return True if keys of a type in `found` may equal keys of a type in `before`.

    None is a missing value, and says nothing of the type of others.  Each part of a composite type is compared
    with that part of all alike: it may be None in some keys and a number in others.
    """
    found, before = set(found) - {_NONE}, set(before) - {_NONE}
    return not (found and before) or bool(found & before) or any(_has_equal(one, before) for one in found)


def _has_equal(one: KeyType, before: Collection[KeyType]) -> bool:
    if isinstance(one, str):
        return False
    alike = [other for other in before if isinstance(other, Composite) and other[:2] == one[:2]]
    if one.name == _FROZENSET:
        return bool(alike) and _may_be_equal(one.parts, {part for other in alike for part in other.parts})
    alike = [other for other in alike if len(other.parts) == len(one.parts)]
    return bool(alike) and all(
        _may_be_equal((part,), {other.parts[i] for other in alike}) for i, part in enumerate(one.parts)
    )


@attrs.define
class KeyTypes:
    """The types of a step's keys in a checkpoint.

    Attributes:
      label: the step's.
      types: at least one.
      unchecked: the number of elements that are still to be compared, bundle by bundle.
    """

    label: str
    types: frozenset[KeyType]
    unchecked: int = 1

    def check(self, keys: Iterable[Any]) -> None:
        """Raise `CheckpointMismatchError` if there are keys, and none of them is of one of the types."""
        try:
            found = types_of(keys)
        except InvalidKeyError:
            # The step refuses an invalid key with a better message.
            return
        if found and not _may_be_equal(found, self.types):
            with_modules = described(found) == described(self.types)
            raise CheckpointMismatchError(
                f"{self.label}: its keys are of type {described(found, with_modules)}, and those in the checkpoint of "
                f"type {described(self.types, with_modules)}, so that the state of each key would start empty. Give "
                "keys the type that they had; or, if both are intended, give --allow_new_key_types"
            )

    def check_elements(self, elements: Collection[Any]) -> None:
        """Check the keys of (key, value) pairs; the step refuses elements that are none."""
        self.unchecked -= len(elements)
        try:
            keys = [key for key, _ in elements]
        except (TypeError, ValueError):
            return
        self.check(keys)
