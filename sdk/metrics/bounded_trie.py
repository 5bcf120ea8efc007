"""BoundedTrieData: paths of texts, of which the longest branches are cut when there are too many.

>>> trie = BoundedTrieData(bound=2)
>>> for path in [("bucket", "a"), ("bucket", "b"), ("table", "c")]:
...     trie.add(path)
>>> sorted(trie.get_result())
[('bucket', True), ('table', 'c', False)]
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Leaves of a trie, beyond which its branches are cut.
DEFAULT_BOUND = 100


class BoundedTrieNode:
    """A node of a trie: an end, the next texts of several paths, or the truncated rest of some.

    Its size is the number of leaves below it; 1 for a leaf.  Changes return by how much they change the size.
    """

    __slots__ = ("_children", "_size", "_truncated")

    def __init__(self) -> None:
        self._children: dict[str, BoundedTrieNode] = {}
        self._size = 1
        self._truncated = False

    def size(self) -> int:
        """Return the number of leaves."""
        return self._size

    def contains(self, segments: Sequence[str]) -> bool:
        """Return whether a path was added, or is covered by a truncated one."""
        node = self
        for segment in segments:
            if node._truncated:
                return True
            child = node._children.get(segment)
            if child is None:
                return False
            node = child
        return True

    def add(self, segments: Sequence[str]) -> int:
        """Add a path."""
        if self._truncated or not segments:
            return 0
        before = self._size
        child = self._children.setdefault(segments[0], BoundedTrieNode())
        child.add(segments[1:])
        return self._resized(before)

    def add_all(self, segments_iter: Iterable[Sequence[str]]) -> int:
        """Add several paths."""
        return sum(self.add(segments) for segments in segments_iter)

    def trim(self) -> int:
        """Truncate the paths at the last node with several, in the branch with the most."""
        if not self._children:
            return 0
        before = self._size
        largest = max(self._children.values(), key=BoundedTrieNode.size)
        if largest.size() == 1:
            self._truncate()
        else:
            largest.trim()
        return self._resized(before)

    def merge(self, other: BoundedTrieNode) -> int:
        """Add the paths of another trie."""
        before = self._size
        if other._truncated:
            self._truncate()
        elif not self._truncated:
            for segment, child in other._children.items():
                if segment in self._children:
                    self._children[segment].merge(child)
                else:
                    self._children[segment] = copy.deepcopy(child)
        return self._resized(before)

    def _truncate(self) -> None:
        self._children, self._truncated = {}, True

    def _resized(self, before: int) -> int:
        self._size = max(1, sum(child._size for child in self._children.values()))
        return self._size - before

    def flattened(self) -> Iterator[tuple[Any, ...]]:
        """Yield the paths, each with whether it is truncated behind it."""
        if not self._children:
            yield (self._truncated,)
        for segment, child in sorted(self._children.items()):
            for rest in child.flattened():
                yield (segment, *rest)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedTrieNode)
            and self._truncated == other._truncated
            and self._children == other._children
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(sorted(self.flattened()))


class BoundedTrieData:
    """Paths of a bounded trie, which can be combined.

    Args:
      root: the trie, which is changed.
      singleton: its only path, instead of a trie.
      bound: the number of leaves beyond which branches are cut.
    """

    __slots__ = ("_bound", "_root")

    def __init__(
        self,
        *,
        root: BoundedTrieNode | None = None,
        singleton: Sequence[str] | None = None,
        bound: int = DEFAULT_BOUND,
    ) -> None:
        if root is not None and singleton is not None:
            raise ValueError("BoundedTrieData: expected a root or a singleton, got both")
        # None without paths: an empty node is a path without segments.
        self._root = root
        self._bound = bound
        if singleton is not None:
            self.add(singleton)

    @staticmethod
    def singleton(value: Sequence[str]) -> BoundedTrieData:
        """Return the data of one path."""
        return BoundedTrieData(singleton=value)

    @staticmethod
    def identity_element() -> BoundedTrieData:
        """Return the data of no path."""
        return BoundedTrieData()

    def size(self) -> int:
        """Return the number of leaves."""
        return 0 if self._root is None else self._root.size()

    def contains(self, value: Sequence[str]) -> bool:
        """Return whether a path was added, or is covered by a truncated one."""
        return self._root is not None and self._root.contains(value)

    def as_trie(self) -> BoundedTrieNode:
        """Return the trie."""
        return BoundedTrieNode() if self._root is None else self._root

    def flattened(self) -> Iterator[tuple[Any, ...]]:
        """Yield the paths, each with whether it is truncated behind it."""
        return self.as_trie().flattened()

    def add(self, segments: Sequence[str]) -> None:
        """Add a path."""
        if self._root is None:
            self._root = BoundedTrieNode()
        self._root.add(segments)
        self._cut()

    def combine(self, other: BoundedTrieData) -> BoundedTrieData:
        """Return the paths of both, within the lower bound."""
        if other._root is None:
            return self
        if self._root is None:
            return other
        combined = BoundedTrieData(root=copy.deepcopy(self._root), bound=min(self._bound, other._bound))
        combined.as_trie().merge(other._root)
        combined._cut()
        return combined

    def _cut(self) -> None:
        while self._root is not None and self._root.size() > self._bound:
            self._root.trim()

    def get_cumulative(self) -> BoundedTrieData:
        """Return a copy."""
        return copy.deepcopy(self)

    def get_result(self) -> set[tuple[Any, ...]]:
        """Return the paths, each with whether it is truncated behind it."""
        return set() if self._root is None else set(self._root.flattened())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundedTrieData) and self.as_trie() == other.as_trie()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"BoundedTrieData({self.as_trie()})"
