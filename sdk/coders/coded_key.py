"""Keys whose type has a registered coder, which are equal exactly if their encoded bytes are, independent of `==`.

A runner replaces such a key by a `CodedKey` before grouping, and passes the key itself to user code.  All other keys
are unchanged: their encoding and `==` agree.

>>> from penstock.sdk.coders import StrUtf8Coder, registry
>>> class Name:
...     def __init__(self, name): self.name = name
>>> class NameCoder(StrUtf8Coder):
...     def encode(self, value): return value.name.lower().encode()
...     def decode(self, encoded): return Name(encoded.decode())
>>> registry.register_coder(Name, NameCoder)
>>> coded(Name("Ann")) == coded(Name("ann")), coded(("a", Name("Ann"))) == coded(("a", Name("ann"))), coded("ann")
(True, True, 'ann')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attr

from ..elements.row import Row
from ..errors import InvalidKeyError
from .coder import shortened
from .key_encoding import CodedKey, encode_key
from .typecoders import registry

# Keys of these types have no parts.
_SIMPLE = frozenset({type(None), bool, int, float, str, bytes})

# Types whose values are always valid keys; some floats aren't.
VALID_TYPES = frozenset({type(None), bool, int, str, bytes})

# Seen types whose values, and their parts, have no coder.
_simple: set[type] = set(_SIMPLE)
_simple_version = 0


def coded(key: Any) -> Any:
    """Return a `CodedKey` for a key with a registered deterministic coder, or with such a part; else the key.

    Raises `InvalidKeyError` if another part can't be encoded.
    """
    global _simple, _simple_version
    if registry.version != _simple_version:
        _simple, _simple_version = set(_SIMPLE - registry.deterministic_types()), registry.version
    kind = type(key)
    if kind in _simple or (kind is tuple and _simple.issuperset(map(type, key))) or not is_coded(key):
        return key
    return CodedKey(encode_key(key), key)


def plain(key: Any) -> Any:
    """Return the original key of a coded key.

    >>> plain(CodedKey(b"1", 1)), plain(2)
    (1, 2)
    """
    return key.key if type(key) is CodedKey else key


def is_coded(key: Any) -> bool:
    """Return whether a key, or a part of it, has a registered deterministic coder."""
    kind: Any = type(key)
    types = registry.deterministic_types()
    if not types or kind is CodedKey or kind in _simple:
        return False
    if kind in types:
        return True
    if isinstance(key, (tuple, frozenset, Row)):
        return any(map(is_coded, key))
    if attr.has(kind):
        return any(is_coded(getattr(key, field.name)) for field in attr.fields(kind) if field.eq)
    if dataclasses.is_dataclass(kind):
        return any(is_coded(getattr(key, field.name)) for field in dataclasses.fields(kind) if field.compare)
    if _simple_version == registry.version:
        _simple.add(kind)
    return False


def check_keys(keys: Iterable[Any]) -> None:
    """Raise `InvalidKeyError` if one of the keys can't be encoded, or has a coder and is not in coded form.

    For a batch of new keys: it checks their types first, and the keys only if their type doesn't suffice.

    >>> check_keys(["a", 1, None])
    """
    keys = keys if isinstance(keys, (list, tuple, set, frozenset, dict)) else list(keys)
    for kind in set(map(type, keys)) - VALID_TYPES:
        for key in keys:
            if type(key) is kind:
                encode_key(key)
                if is_coded(key):
                    raise InvalidKeyError(
                        f"the key {shortened(key)} ({kind.__qualname__}) has a registered coder, which was registered "
                        "after the pipeline was started, or which a wrong type hint hides: register coders before "
                        "the pipeline runs, and correct the type hints of keys"
                    )


class CodedMapping(Mapping[Any, Any]):
    """A dictionary whose keys are equal if their encoded bytes are.

    >>> mapping = CodedMapping([("a", 1), ("b", 2), ("a", 3)])
    >>> mapping["a"], len(mapping), mapping
    (3, 2, {'a': 3, 'b': 2})
    """

    def __init__(self, pairs: Iterable[Any]) -> None:
        self._entries: dict[Any, Any] = {}
        for key, value in pairs:
            self._entries[coded(key)] = value

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._entries[coded(key)]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[Any]:
        return map(plain, self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return repr(self._entries)
