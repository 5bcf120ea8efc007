"""The shuffle of elements, by the key group of their keys.

It serves ParDos with state, and groupings whose trigger needs each element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from ....sdk.coders.key_encoding import KEY_GROUPS, key_group
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle, narrowed
from ..spilling.memory import MemoryBound, memory_of_all
from ..user_errors import Attribution, attributed, not_a_pair, pair_type, reraise
from .blocks import TABLE_BYTES, Send, decode_bundle, encode_bundle

Row = tuple[Any, int, Any, Any, int]


class ElementWriter:
    """The writer of the shuffle: buffers elements, and sends them as blocks by key group when the buffer is full.

    >>> sent = []
    >>> writer = ElementWriter("Count", lambda group, block: sent.append((group, block)))
    >>> writer.receive(Bundle([("a", 1), ("b", 2), ("a", 3)]))
    >>> writer.flush()
    >>> [decode_bundle(block).values for group, block in sent]
    [[('a', 1), ('a', 3)], [('b', 2)]]
    """

    def __init__(self, label: str, send: Send, groups: int = KEY_GROUPS, memory_bytes: int = TABLE_BYTES) -> None:
        self._label = label
        self._groups = groups
        self._send = send
        self._by_group: dict[int, list[Row]] = {}
        self._bound = MemoryBound(memory_bytes, self._memory)

    def receive(self, bundle: Bundle) -> None:
        """Add a bundle."""
        kind: type | None = None
        by_group = self._by_group
        try:
            for row in bundle.rows():
                element = row[0]
                if type(element) is not kind:
                    kind = pair_type(element)
                if len(element) != 2:
                    raise not_a_pair(element)
                by_group.setdefault(key_group(element[0], self._groups), []).append(row)
        except BaseException as error:
            reraise(attributed(error, Attribution(self._label, None)))
        if self._bound.added(len(bundle)):
            self.flush()

    def _memory(self) -> float:
        return memory_of_all(list(chain.from_iterable(self._by_group.values())))

    def flush(self) -> None:
        """Send everything that is buffered."""
        taken, self._by_group = self._by_group, {}
        try:
            for group, rows in taken.items():
                for block in encode_bundle(_of_rows(rows)):
                    self._send(group, block)
        except BaseException as error:
            reraise(attributed(error, Attribution(self._label, None)))


def in_order_of_time(blocks: Iterable[bytes]) -> Iterator[Bundle]:
    """Yield a key group's elements in the order of their event times."""
    rows = [row for block in blocks for row in decode_bundle(block).rows()]
    rows.sort(key=_micros)
    for start in range(0, len(rows), BUNDLE_SIZE):
        yield _of_rows(rows[start : start + BUNDLE_SIZE])


def _of_rows(rows: list[Row]) -> Bundle:
    values, *others = map(list, zip(*rows, strict=True))
    return Bundle(values, *map(narrowed, others))


def _micros(row: Row) -> int:
    return row[1]
