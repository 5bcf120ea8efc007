"""NetChanges: what signed changes of keys come to, in whatever order they come.

    key  value  sign          key  value  count
    ann  3      +1            ann  4       1       the latest value that is left
    ann  3      -1     ->     bob  1      -1       no value is left, and one is gone
    ann  4      +1
    bob  1      -1

More changes than memory has room for are partitioned on disk, first by key and value, so that changes that cancel each
other meet, and what is left of them by key.  So a key with many changes needs no more memory than others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs
import msgspec

from ...sdk.elements.hash_partitions import PARTITIONS, HashPartitions


class SignedChange(Protocol):
    """A change of a key.

    Attributes:
      sign: 1, or -1 for a retraction.
      version: the latest of several values of a key is left; of changes with sign 1.
    """

    @property
    def sign(self) -> int: ...

    @property
    def version(self) -> Any: ...


T = TypeVar("T", bound=SignedChange)

# The memory of changes up to which they stay in memory, in bytes, and that of a change besides its key and value.
IN_MEMORY_BYTES = 48 << 20
_BESIDES = 500


@attrs.define
class NetValue(Generic[T]):
    """The changes of a value of a key.

    Attributes:
      change: the latest of those with sign 1, or another if there is none.
      count: the sum of their signs.
    """

    change: T
    count: int


class NetChanges(Generic[T]):
    """The values of each key that are left, with the latest version; if there is none, those that are gone.

    Iterable again and again, key by key; a key that is as it was is left out.

    Args:
      changes: msgspec's structs.
      of: their class.
      key_and_value: returns those of a change, hashable.
      size: returns the bytes of both.
    """

    def __init__(
        self,
        changes: Iterable[T],
        of: type[T],
        key_and_value: Callable[[T], tuple[Any, Any]],
        size: Callable[[T], int],
    ) -> None:
        self._key_and_value = key_and_value
        self._size = size
        self._codec = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(list[of]).decode  # type: ignore[valid-type]
        self._few: list[T] = []
        self._left: HashPartitions[tuple[int, T]] | None = None
        remaining, total = iter(changes), 0
        for change in remaining:
            self._few.append(change)
            total += size(change) + _BESIDES
            if total > IN_MEMORY_BYTES:
                self._left = self._partitioned(remaining, of)
                break

    def _partitioned(self, remaining: Iterable[T], of: type[T]) -> HashPartitions[tuple[int, T]]:
        """Partition the changes, and return what is left of them by key."""
        changes: HashPartitions[T] = HashPartitions(*self._codec)
        while self._few:
            self._add(changes, self._few.pop())
        for change in remaining:
            self._add(changes, change)
        decode = msgspec.msgpack.Decoder(list[tuple[int, of]]).decode  # type: ignore[valid-type]
        left: HashPartitions[tuple[int, T]] = HashPartitions(self._codec[0], decode)
        for number in range(PARTITIONS):
            for values in self._netted((change.sign, change) for change in changes.of(number)):
                for value in values:
                    key, _ = self._key_and_value(value.change)
                    left.add(hash(key), (value.count, value.change), self._size(value.change) + _BESIDES)
        return left

    def _add(self, to: HashPartitions[T], change: T) -> None:
        to.add(hash(self._key_and_value(change)), change, self._size(change) + _BESIDES)

    def __iter__(self) -> Iterator[Sequence[NetValue[T]]]:
        if self._left is None:
            yield from self._netted((change.sign, change) for change in self._few)
            return
        for number in range(PARTITIONS):
            yield from self._netted(self._left.of(number))

    def _netted(self, changes: Iterable[tuple[int, T]]) -> Iterator[Sequence[NetValue[T]]]:
        by_key: dict[Any, dict[Any, NetValue[T]]] = {}
        for count, change in changes:
            key, value = self._key_and_value(change)
            values = by_key.setdefault(key, {})
            net = values.get(value)
            if net is None:
                values[value] = NetValue(change, count)
                continue
            net.count += count
            if change.sign > 0 and (net.change.sign < 0 or change.version >= net.change.version):
                net.change = change
        for values in by_key.values():
            if found := _of_key(values.values()):
                yield found


def _of_key(values: Iterable[NetValue[T]]) -> Sequence[NetValue[T]]:
    """Return the latest values that are left; if there is none, those that are gone."""
    left = [value for value in values if value.count > 0]
    if not left:
        return [value for value in values if value.count < 0]
    last = max(value.change.version for value in left)
    return [value for value in left if value.change.version == last]
