"""Blocks of tasks in files, read back by partition and key group."""

from __future__ import annotations

import pathlib

from penstock.runners.execution.batch.segment_task import Destination
from penstock.runners.execution.batch.shuffle_files import BlockFile, BlockFileWriter, read_key_groups

SUMS: Destination = ("grouping", "sums")
SIDE: Destination = ("side", 3)


def file_of(path: pathlib.Path, *blocks: tuple[Destination, int, bytes]) -> BlockFile:
    """A file of these blocks, with three partitions."""
    writer = BlockFileWriter(str(path), 3)
    for block in blocks:
        writer.send(*block)
    return writer.close()


def test_a_partition_has_the_blocks_of_its_key_groups_from_all_files(tmp_path: pathlib.Path) -> None:
    """One key group after the other; those of other partitions and destinations are left out."""
    first = file_of(tmp_path / "a", (SUMS, 4, b"4a"), (SUMS, 1, b"1a"), (SUMS, 2, b"2a"), (SIDE, 1, b"side"))
    other = file_of(tmp_path / "b", (SUMS, 1, b"1b"), (SUMS, 1, b"1c"))
    parts = [part for file in (first, other) if (part := file.part(SUMS, 1)) is not None]
    assert [(1, [b"1a", b"1b", b"1c"]), (4, [b"4a"])] == [(g, list(blocks)) for g, blocks in read_key_groups(parts)]
    assert other.part(SUMS, 2) is None
    assert other.part(SIDE, 1) is None


def test_a_task_that_sends_nothing_makes_no_file(tmp_path: pathlib.Path) -> None:
    """Such as one that writes to a sink."""
    assert {} == file_of(tmp_path / "a").spans
    assert [] == list(tmp_path.iterdir())


def test_a_partition_may_be_in_more_files_than_may_be_open(tmp_path: pathlib.Path) -> None:
    """Those that were read least recently are closed."""
    files = [file_of(tmp_path / str(i), (SUMS, 0, b"%d" % i), (SUMS, 3, b"%d" % i)) for i in range(200)]
    parts = [part for file in files if (part := file.part(SUMS, 0)) is not None]
    expected = [b"%d" % i for i in range(200)]
    assert [(0, expected), (3, expected)] == [(g, list(blocks)) for g, blocks in read_key_groups(parts)]
