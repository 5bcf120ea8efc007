"""Partitioning of a shuffle: cuts a bundle by the key groups of its keys, or by the subtasks that own these.

A key group always belongs to the same subtask.  A bundle is cut as a whole.  Hashing is most of the work, so the owners
of keys are cached as long as keys repeat: a hundred nanoseconds an element instead of two hundred
(docs/streaming_performance.md).

In a bounded run, whose key groups nothing outlives, the value of a whole number decides, in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ....sdk.coders.key_encoding import KEY_GROUPS, encode_key, key_group, key_groups
from ....sdk.columns.column_bundle import ColumnBundle
from ....sdk.elements.bundle import Bundle
from ..user_errors import Attribution, attributed, has_hash, not_a_pair, pair_type, reraise, shortened, unhashable

# The number of keys whose owner is cached.
_REMEMBERED = 16_384
# If most keys of `_MANY` elements are new, the cache is bypassed for `_RESTS` times as many elements.
_MANY, _RESTS = 1_000, 15


def owner(group: int, parallelism: int) -> int:
    """Return the subtask that owns a key group.

    >>> [owner(group, 3) for group in (0, 42, 43, 127)]
    [0, 0, 1, 2]
    """
    return group * parallelism // KEY_GROUPS


class Partitioner:
    """Cuts bundles of pairs.

    Args:
      parallelism: the number of parts.
      label: the step that receives the elements, for errors.
      groups: the number of key groups that the parts have.
      bounded: True if there is a part for each key group, of which the value of a whole number decides.

    >>> parts = Partitioner(128, "Group").parts(Bundle([("a", 1), ("b", 2), ("a", 3)]))
    >>> sorted(part.values for part in parts if len(part))
    [[('a', 1), ('a', 3)], [('b', 2)]]
    """

    def __init__(self, parallelism: int, label: str, groups: int = KEY_GROUPS, bounded: bool = False) -> None:
        self._label = label
        self._parallelism = parallelism
        self._groups = groups
        self._prime = prime_up_to(groups) if bounded else None
        self._owners = [group * parallelism // groups for group in range(groups)]
        # The cached owners by key, and the number of elements for which the cache is still bypassed.
        self._known: dict[Any, int] = {}
        self._resting = 0

    def parts(self, bundle: Bundle) -> list[Bundle]:
        """Return the part of each subtask, in order, of the class of the bundle.

        Raises `NotAPairError` or `InvalidKeyError` at the first element that has no key.
        """
        targets = self.targets(bundle.values)
        columns: Any = bundle.values, bundle.timestamps, bundle.windows, bundle.panes, bundle.signs
        kind = Bundle if isinstance(bundle, ColumnBundle) else type(bundle)
        places: list[list[int]] = [[] for _ in range(self._parallelism)]
        for i, target in enumerate(targets):
            places[target].append(i)
        return [
            kind(*([column[i] for i in own] if type(column) is list else column for column in columns))
            for own in places
        ]

    def targets(self, elements: list[Any]) -> list[int]:
        """Return the number of the part of each pair.

        Raises `NotAPairError` or `InvalidKeyError` at the first element that has no key.
        """
        try:
            for kind in set(map(type, elements)):
                if not issubclass(kind, (tuple, list)):
                    raise TypeError(f"{kind} is no pair")
            keys = [key for key, _ in elements]
            prime = self._prime
            if prime is not None and _are_ints(keys):
                return [key % prime for key in keys]
            if self._resting <= 0:
                try:
                    return list(map(self._known.__getitem__, keys))
                except KeyError:
                    self._remember(keys)
            if self._resting <= 0:
                return list(map(self._known.__getitem__, keys))
            self._resting -= len(keys)
            return self.of_keys(keys)
        except BaseException as error:
            found, element = _explained(elements) or (error, None)
            reraise(attributed(found, Attribution(self._label, element)))

    def of_keys(self, keys: Collection[Any]) -> list[int]:
        """Return the number of the part of each key."""
        prime, owners = self._prime, self._owners
        if prime is not None:
            if _are_ints(keys):
                return [key % prime for key in keys]
            # Equal keys have one encoding.
            known = {key: _group_by_value(key, prime, self._groups) for key in dict.fromkeys(keys)}
            return [known[key] for key in keys]
        return [owners[group] for group in key_groups(list(keys), self._groups)]

    def _remember(self, keys: list[Any]) -> None:
        """Cache the owners of these keys, unless hardly any of them repeats."""
        known = self._known
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if known and 4 * len(new) > 3 * len(keys) and len(keys) >= _MANY:
            known.clear()
            self._resting = _RESTS * len(keys)
            return
        if len(known) + len(new) > _REMEMBERED:
            known.clear()
            new = list(dict.fromkeys(keys))
        known.update(zip(new, self.of_keys(new), strict=True))


def prime_up_to(groups: int) -> int:
    """Return the largest prime number up to `groups`: integers may be multiples of any other.

    >>> prime_up_to(128)
    127
    """
    return next(n for n in range(groups, 1, -1) if all(n % i for i in range(2, int(n**0.5) + 1)))


def _are_ints(keys: Collection[Any]) -> bool:
    return set(map(type, keys)) == {int}


def _group_by_value(key: Any, prime: int, groups: int) -> int:
    """Return the group of a key in a bounded run: by its value if it equals a whole number."""
    kind = type(key)
    if kind is int:
        return int(key % prime)
    if kind is not str:
        encoded = encode_key(key)
        if encoded[:1] == b"i":
            return int.from_bytes(encoded[1:], "big", signed=True) % prime
    return key_group(key, groups)


def _explained(elements: list[Any]) -> tuple[Exception, str | None] | None:
    """Return the error of the first element that has no key, and the element unless the message has it."""
    for element in elements:
        try:
            pair_type(element)
            if len(element) != 2:
                return not_a_pair(element), None
        except Exception as error:
            return error, None
        try:
            if not has_hash(element[0]):
                return unhashable(element[0]), None
        except Exception as error:
            return error, shortened(element)
    return None
