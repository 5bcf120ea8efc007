"""What has changed in a snapshot: of what may be large the steps know, of all else the newest counts, and is compared.

>>> from penstock.runners.execution.streaming.snapshot_chunks import (KEPT, Chunk, chunks_of)
>>> differences = Differences()
>>> same, more = Chunk("Step", KEPT, 1, ["a row"]), Chunk("Step", KEPT, 2, ["another"])
>>> [len(list(chunks_of([data]))) for data, _ in [differences.of([same]), differences.of([same, more])]]
[1, 1]
>>> differences.of([more])
(b'', (('Step', 'kept', 1),))
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from ...execution.streaming.snapshot_chunks import CHAINED, Chunk, records_of
from .production import ChunkKey


class Differences:
    """Remembers, as digests, what was said last of each chunk of which the newest counts."""

    def __init__(self) -> None:
        self._said: dict[ChunkKey, bytes] = {}

    def forget(self) -> None:
        """Say everything the next time."""
        self._said = {}

    def of(self, chunks: Iterable[Chunk]) -> tuple[bytes, tuple[ChunkKey, ...]]:
        """The chunks that are to be written, serialised; and the keys of those that there are no longer."""
        written: list[bytes] = []
        now: dict[ChunkKey, bytes] = {}
        for chunk in chunks:
            data = b"".join(records_of([chunk]))
            if chunk.kind not in CHAINED:
                key = chunk.label, chunk.kind, chunk.group
                digest = now[key] = blake2b(data, digest_size=16).digest()
                if self._said.get(key) == digest:
                    continue
            written.append(data)
        gone = tuple(key for key in self._said if key not in now)
        self._said = now
        return b"".join(written), gone
