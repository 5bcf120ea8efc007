"""DisplayDataItemMatcher: a matcher of display data, for PyHamcrest."""

from __future__ import annotations

from typing import Any

from .matching import BaseMatcher

_ANY = object()


class DisplayDataItemMatcher(BaseMatcher):
    """Matcher of a `DisplayDataItem` by those of its attributes that are given.

    Raises `ValueError` if none is.

    >>> from penstock.transforms.display import DisplayDataItem
    >>> DisplayDataItemMatcher("size", 3).matches(DisplayDataItem(3, key="size", namespace="app"))
    True
    """

    IGNORED = _ANY

    def __init__(
        self, key: Any = _ANY, value: Any = _ANY, namespace: Any = _ANY, label: Any = _ANY, shortValue: Any = _ANY
    ) -> None:
        given = {"key": key, "value": value, "namespace": namespace, "label": label, "shortValue": shortValue}
        self.wanted = {name: wanted for name, wanted in given.items() if wanted is not _ANY}
        if not self.wanted:
            raise ValueError("Must receive at least one item attribute to match")

    def _matches(self, item: Any) -> bool:
        return all(getattr(item, name) == wanted for name, wanted in self.wanted.items())

    def describe_to(self, description: Any) -> None:
        """Append what is expected to a description of PyHamcrest."""
        description.append_text(" and ".join(f"{name} is {wanted}" for name, wanted in self.wanted.items()))
