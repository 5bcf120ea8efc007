"""Which worker has a key, and a bundle cut by that: the elements of a key group always go to the same one."""

from __future__ import annotations

from typing import Any

from ...sdk.bundle import Bundle
from ...sdk.coders.key_encoding import KEY_GROUPS, key_groups
from .key_check import not_a_pair, pair_type, unhashable
from .user_code import Attribution, attributed, reraise


def owner(group: int, parallelism: int) -> int:
    """Which of so many workers has a key group.

    >>> [owner(group, 3) for group in (0, 42, 43, 127)]
    [0, 0, 1, 2]
    """
    return group * parallelism // KEY_GROUPS


class Partitioner:
    """Cuts bundles of pairs.

    Args:
      parallelism: into how many parts.
      label: the step that the elements go to, for errors.

    >>> parts = Partitioner(128, "Group").parts(Bundle([("a", 1), ("b", 2), ("a", 3)]))
    >>> sorted(part.values for part in parts if len(part))
    [[('a', 1), ('a', 3)], [('b', 2)]]
    """

    def __init__(self, parallelism: int, label: str) -> None:
        self._label = label
        self._parallelism = parallelism
        self._owners = [owner(group, parallelism) for group in range(KEY_GROUPS)]

    def parts(self, bundle: Bundle) -> list[Bundle]:
        """What each worker gets, in order.

        Raises `NotAPairError` or `InvalidKeyError` at the first element that has no key.
        """
        owners = self._owners
        targets = [owners[group] for group in self._groups(bundle.values)]
        places: list[list[int]] = [[] for _ in range(self._parallelism)]
        for i, target in enumerate(targets):
            places[target].append(i)
        columns: Any = bundle.values, bundle.timestamps, bundle.windows, bundle.panes, bundle.signs
        return [
            Bundle(*([column[i] for i in own] if type(column) is list else column for column in columns))
            for own in places
        ]

    def _groups(self, elements: list[Any]) -> list[int]:
        try:
            return key_groups([key for key, _ in elements])
        except Exception as error:
            reraise(attributed(_explained(elements) or error, Attribution(self._label, None)))


def _explained(elements: list[Any]) -> Exception | None:
    """What is wrong with the first element that has no key."""
    for element in elements:
        try:
            pair_type(element)
            if len(element) != 2:
                return not_a_pair(element)
            try:
                hash(element[0])
            except TypeError:
                return unhashable(element[0])
        except Exception as error:
            return error
    return None
