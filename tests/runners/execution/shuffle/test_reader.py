"""The blocks of a shuffle, in memory and spilled."""

from __future__ import annotations

from itertools import permutations

import pytest

from penstock.runners.execution.shuffle.reader import BlockSpool


@pytest.mark.parametrize("memory", [0, 5, 1000])
def test_blocks_come_out_in_the_order_of_their_places_however_they_arrive(memory: int) -> None:
    """Whether all of them are spilled, some, or none."""
    blocks = [(0, 1, b"a"), (0, 2, b"bb"), (0, 9, b""), (1, 3, b"dd"), (1, 4, b"e")]
    for arriving in permutations(blocks):
        spool = BlockSpool(memory)
        for group, place, block in arriving:
            spool.add(group, place, block)
        found = [(group, list(of_group)) for group, of_group in spool.groups()]
        assert [(0, [b"a", b"bb", b""]), (1, [b"dd", b"e"])] == found
