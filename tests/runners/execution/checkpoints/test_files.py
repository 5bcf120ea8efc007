"""One snapshot file: what is written comes back, and what is not what was written is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.checkpoints.files import (
    FileReference,
    SnapshotKind,
    read_snapshot_file,
    verify_snapshot_file,
    write_snapshot_file,
)
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
from penstock.sdk.errors import CorruptSnapshotError


def disk_with(content: bytes) -> SimulatedDisk:
    """A disk with one file, dir/a."""
    disk = SimulatedDisk(Random(0))
    disk.write_atomically("dir/a", content)
    return disk


def written(*records: bytes, kind: SnapshotKind = SnapshotKind.FULL) -> tuple[bytes, FileReference]:
    """A file's bytes, and its reference."""
    disk = SimulatedDisk(Random(0))
    reference = write_snapshot_file(disk, "dir/a", kind, records)
    return disk.read("dir/a"), reference


@given(st.lists(st.binary(max_size=50)), st.sampled_from([SnapshotKind.FULL, SnapshotKind.DELTA]))
def test_records_come_back_as_they_were(records: list[bytes], kind: SnapshotKind) -> None:
    """Empty ones too, and none at all."""
    content, reference = written(*records, kind=kind)

    assert records == list(read_snapshot_file(disk_with(content), "dir/a", reference))
    assert ("a", kind, len(content), len(records)) == (
        reference.file,
        reference.kind,
        reference.length,
        reference.records,
    )


def test_the_format_is_that_of_the_documentation() -> None:
    """Byte by byte: a change needs a new version."""
    content, reference = written(b"one", b"", kind=SnapshotKind.DELTA)

    head = b"PENSTOCK\x00\x01\x00\x02"
    one, none = b"\x00\x00\x00\x03one", b"\x00\x00\x00\x00"
    end = b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x02"
    checksums = [crc32(head + one), crc32(head + one + none), crc32(head + one + none + end)]
    first, second, last = (checksum.to_bytes(4, "big") for checksum in checksums)
    assert head + one + first + none + second + end + last == content
    assert FileReference("a", SnapshotKind.DELTA, len(content), checksums[-1], 2) == reference


def test_every_flipped_bit_is_noticed_before_its_record_is_given_out() -> None:
    """All bits of a file, with and without its reference."""
    content, reference = written(b"first", b"second")
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        for expected in (reference, None):
            given_out = []
            reading = read_snapshot_file(disk_with(bytes(flipped)), "dir/a", expected)
            with pytest.raises(CorruptSnapshotError, match=r"^dir/a: found .+, expected .+"):
                given_out.extend(record for record in reading)
            assert given_out == [b"first", b"second"][: len(given_out)]


def test_every_shorter_and_longer_file_is_noticed() -> None:
    """Cut off anywhere, or with something behind it."""
    content, reference = written(b"first", b"second")
    for length in range(len(content)):
        with pytest.raises(CorruptSnapshotError, match="dir/a: found its end after"):
            verify_snapshot_file(disk_with(content[:length]), "dir/a", reference)
    with pytest.raises(CorruptSnapshotError, match=f"found more after byte {len(content)}, expected the end"):
        verify_snapshot_file(disk_with(content + b"x"), "dir/a", reference)


def test_records_that_changed_places_are_noticed() -> None:
    """Each of them is whole, but each checksum covers what stands before it."""
    content, _ = written(b"aaaa", b"bbbb")
    frames = content[12:24], content[24:36]
    swapped = content[:12] + frames[1] + frames[0] + content[36:]

    with pytest.raises(CorruptSnapshotError, match="found the checksum"):
        verify_snapshot_file(disk_with(swapped), "dir/a")


def test_another_file_in_its_place_is_noticed() -> None:
    """Though it is whole itself."""
    content, _ = written(b"yesterday")
    _, reference = written(b"today")

    with pytest.raises(CorruptSnapshotError) as raised:
        verify_snapshot_file(disk_with(content), "dir/a", reference)

    assert raised.value.file == "dir/a"
    assert raised.value.found.startswith("a full snapshot of 1 record, 45 bytes, checksum ")
    assert raised.value.expected.startswith("a full snapshot of 1 record, 41 bytes, checksum ")


def test_a_missing_file_is_named() -> None:
    """With what should have been there."""
    _, reference = written(b"one")

    with pytest.raises(CorruptSnapshotError, match="dir/b: found no such file, expected a full snapshot of 1 record"):
        verify_snapshot_file(disk_with(b""), "dir/b", reference)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((0, b"PENSTACK"), "found b'PENSTACK' at its beginning, expected b'PENSTOCK'"),
        ((8, b"\x00\x02"), "found version 2 of the format, expected version 1"),
        ((10, b"\x00\x07"), r"found 7 for its kind, expected 1 \(full\) or 2 \(delta\)"),
    ],
)
def test_a_file_of_another_format_is_called_that(change: tuple[int, bytes], message: str) -> None:
    """A later version, say."""
    content, _ = written(b"one")
    place, replacement = change
    changed = content[:place] + replacement + content[place + len(replacement) :]

    with pytest.raises(CorruptSnapshotError, match=message):
        verify_snapshot_file(disk_with(changed), "dir/a")


def test_a_file_is_written_and_read_a_record_at_a_time() -> None:
    """The whole file never has to be in memory."""
    steps = []

    def records() -> Iterator[bytes]:
        for number in range(2):
            steps.append(f"asked for {number}")
            yield bytes([number])

    class Recording(SimulatedDisk):
        def _step(self, path: str) -> None:
            steps.append("written")

    disk = Recording(Random(0))
    write_snapshot_file(disk, "dir/a", SnapshotKind.FULL, records())
    first = steps.index("asked for 0")

    # Its length, itself, its checksum.
    assert ["asked for 0", "written", "written", "written", "asked for 1"] == steps[first : first + 5]
    # What follows it may be missing.
    reading = read_snapshot_file(disk_with(disk.read("dir/a")[:30]), "dir/a")
    assert b"\x00" == next(reading)
