"""The log of productions: durable and torn records, refused appends, and owners."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pathlib
import signal
from random import Random
from typing import Any
from zlib import crc32

import pytest

from penstock.runners.execution.checkpoints.log_listing import ListedLog, LogListing
from penstock.runners.execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from penstock.runners.execution.checkpoints.storage import Disk, LocalDisk, disk_of
from penstock.runners.local.productions.log import HEAD, ProductionLog, read_records
from penstock.sdk.errors import (
    CorruptSnapshotError,
    SnapshotError,
    StaleWriterError,
    UnknownFormatError,
    UnsupportedError,
)


def owned(disk: Disk, token: str = "aa", directory: str = "dir") -> ProductionLog:
    """Return a log that was taken over, and begun with the records of the owner before."""
    log = ProductionLog(disk, directory, ahead=100)
    log.begin(log.take_over(token))
    return log


def content_of(disk: Disk, directory: str = "dir") -> list[bytes]:
    """Return the records that the next owner finds."""
    return ProductionLog(disk, directory).take_over("ff")


def file_of(disk: Disk, directory: str = "dir") -> str:
    """Return the path of the only log."""
    (name,) = (name for name in disk.list(directory) if name.startswith("productions-"))
    return f"{directory}/{name}"


def listed_in(disk: Disk) -> ListedLog:
    """Return an entry of a new list."""
    listing = LogListing(disk, "listed")
    listing.create(3)
    return ListedLog(listing, 1)


@pytest.mark.parametrize("kind", ["local", "simulated"])
def test_the_next_owner_finds_the_appended_records(kind: str, tmp_path: pathlib.Path) -> None:
    """In order, over several owners; the files of earlier owners are removed."""
    disk: Disk = LocalDisk() if kind == "local" else SimulatedDisk(Random(0))
    directory = f"{tmp_path}/log"
    log = owned(disk, "aa", directory)
    log.append(b"one")
    log.append(b"")
    log = owned(disk, "bb", directory)
    log.append(b"three")

    assert 1 == len([name for name in disk.list(directory) if name.startswith("productions-")])
    assert [b"one", b"", b"three"] == content_of(disk, directory)


def test_a_log_that_begins_anew_has_only_the_given_records() -> None:
    """The same owner compacts its log, and continues to append."""
    disk = SimulatedDisk(Random(0))
    log = owned(disk)
    for number in range(5):
        log.append(b"%d" % number)

    log.begin([b"all of it"])
    log.append(b"more")

    assert [b"all of it", b"more"] == content_of(disk)


def test_a_torn_tail_is_cut_off_wherever_it_was_torn() -> None:
    """At each byte of the last record; the others are kept."""
    disk = SimulatedDisk(Random(0))
    log = owned(disk)
    log.append(b"first")
    whole = log.length
    log.append(b"second")
    content = disk.read(file_of(disk))
    for length in range(whole, log.length):
        other = SimulatedDisk(Random(0))
        owned(other)
        other.write_atomically(file_of(other), content[:length])

        assert [b"first"] == content_of(other)


def test_zeros_behind_the_last_record_are_a_torn_tail() -> None:
    """Some file systems extend a file before they write its bytes."""
    disk = SimulatedDisk(Random(0))
    owned(disk).append(b"first")
    disk.write_atomically(file_of(disk), disk.read(file_of(disk)) + bytes(100))

    assert [b"first"] == content_of(disk)


def test_a_damaged_record_among_others_is_an_error_that_names_it() -> None:
    """At every bit: the record was durable, and its outputs may have been delivered."""
    disk = SimulatedDisk(Random(0))
    log = owned(disk)
    log.append(b"zero")
    start = log.length
    log.append(b"one")
    stop = log.length
    log.append(b"two")
    content = disk.read(file_of(disk))
    for bit in range(8 * start, 8 * stop):
        flipped = bytearray(content)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        other = SimulatedDisk(Random(0))
        owned(other)
        other.write_atomically(file_of(other), bytes(flipped))
        with pytest.raises(CorruptSnapshotError, match=f"a damaged record 1 at byte {start}, .* as record 2 is"):
            content_of(other)


def test_a_listed_log_that_has_lost_anything_is_an_error_that_names_it() -> None:
    """At every byte; records that aren't listed may be missing."""
    disk = SimulatedDisk(Random(0))
    listed = listed_in(disk)
    log = ProductionLog(disk, "dir", ahead=100, listed=listed)
    log.begin(log.take_over("aa"))
    log.append(b"first")
    log.append(b"second")
    path, length = file_of(disk), log.length
    content = disk.read(path)
    damaged = [content[:cut] for cut in range(length)]
    damaged += [content[:place] + bytes(length - place) + content[length:] for place in range(HEAD, length - 1)]
    damaged += [content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in range(length)]
    for each in damaged:
        disk.write_atomically(path, each)
        with pytest.raises(CorruptSnapshotError, match=path):
            ProductionLog(disk, "dir", listed=listed).read()
    disk.lose(path)
    with pytest.raises(CorruptSnapshotError, match=f"{path}: found no such file, expected a log of 2 productions"):
        ProductionLog(disk, "dir", listed=listed).take_over("bb")


def test_a_list_that_is_damaged_is_an_error_that_names_it() -> None:
    """At every bit of the entry, and if its end is missing."""
    disk = SimulatedDisk(Random(0))
    listed = listed_in(disk)
    log = ProductionLog(disk, "dir", listed=listed)
    log.begin(log.take_over("aa"))
    content = disk.read("listed")
    damaged = [content[: 2 * 64 + 10], b"x" + content[1:]]
    damaged += [content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :] for place in range(128, 188)]
    for each in damaged:
        disk.write_atomically("listed", each)
        with pytest.raises(CorruptSnapshotError, match="listed: found"):
            ProductionLog(disk, "dir", listed=listed).read()


def test_a_late_note_of_a_zombie_does_no_harm() -> None:
    """It lists a log that was replaced; the next append of the new owner lists its own."""
    disk = SimulatedDisk(Random(0))
    listed = listed_in(disk)
    zombie, successor = (ProductionLog(disk, "dir", listed=listed) for _ in range(2))
    zombie.begin(zombie.take_over("aa"))
    entry = listed.entry()
    successor.begin(successor.take_over("bb"))
    successor.append(b"one")
    assert entry is not None
    listed.note(entry)

    assert [b"one"] == ProductionLog(disk, "dir", listed=listed).read()


def test_a_file_of_something_else_is_refused() -> None:
    """By its first bytes."""
    disk = SimulatedDisk(Random(0))
    owned(disk)
    disk.write_atomically(file_of(disk), b"something else altogether")

    with pytest.raises(CorruptSnapshotError, match="something el"):
        content_of(disk)


@pytest.mark.parametrize("is_listed", [False, True])
def test_after_any_crash_durable_records_stay_and_at_most_one_more(is_listed: bool) -> None:
    """A thousand seeds: the process, or the machine, dies between any two steps of the disk.

    The list of the logs never takes what a crash has left for damage.
    """
    deaths = 0
    for seed in range(1000):
        random = Random(seed)
        disk = SimulatedDisk(random)
        listed = listed_in(disk) if is_listed else None
        disk.crashes = 0.04
        durable: list[bytes] = []
        under_way: list[bytes] = []
        for owner in range(4):
            try:
                log = ProductionLog(disk, "dir", random.choice([0, 10, 100]), listed)
                found = log.take_over(f"{owner:02x}")
                assert found in (durable, under_way)
                # The records that were found may not be durable yet; `begin` makes them so.
                under_way = found
                log.begin(found)
                durable = found
                for number in range(random.randint(0, 4)):
                    record = b"%d of %d" % (number, owner) * random.randint(0, 3)
                    under_way = [*durable, record]
                    log.append(record)
                    durable = under_way
                    if random.random() < 0.2:
                        log.begin(durable)
            except SimulatedCrash:
                deaths += 1
                if random.random() < 0.5:
                    disk.crash()
        disk.crashes = 0.0
        assert ProductionLog(disk, "dir", listed=listed).take_over("ff") in (durable, under_way)
    assert deaths > 500


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_after_a_failed_append_there_is_no_other(number: int) -> None:
    """Records behind a torn one would not be read."""
    disk = SimulatedDisk(Random(0))
    log = owned(disk)
    log.append(b"first")
    disk.fault = number
    with pytest.raises(SnapshotError, match=os.strerror(number)):
        log.append(b"second")
    disk.fault = None

    with pytest.raises(SnapshotError, match="an append has failed before"):
        log.append(b"third")
    assert [b"first"] == content_of(disk)


def test_a_log_on_an_object_store_is_refused() -> None:
    """Its files can't be appended to."""
    disk = disk_of("memory://logs")

    with pytest.raises(UnsupportedError, match="can't append to files"):
        disk.write_at("memory://logs/a", 0, b"")


# Sequencers


def test_a_zombies_late_append_is_refused() -> None:
    """Its late compaction is refused too; neither is ever read."""
    disk = SimulatedDisk(Random(0))
    zombie = owned(disk, "aa")
    zombie.append(b"in time")
    successor = owned(disk, "bb")
    for late in (lambda: zombie.append(b"too late"), lambda: zombie.begin([b"far too late"])):
        with pytest.raises(StaleWriterError, match="00000002-bb has taken over from 00000001-aa"):
            late()
    successor.append(b"the next")

    assert [b"in time", b"the next"] == content_of(disk)


def test_a_zombies_append_between_claim_and_reading_is_refused_and_is_its_successors() -> None:
    """The new owner reads the record, and only it delivers the outputs."""
    disk = SimulatedDisk(Random(0))
    zombie = owned(disk, "aa")
    successor = _Interrupted(disk, "dir", lambda: refused(zombie, b"at the last moment"))

    assert [b"at the last moment"] == successor.take_over("bb")


def refused(log: ProductionLog, record: bytes) -> None:
    """Check that the append is refused."""
    with pytest.raises(StaleWriterError):
        log.append(record)


class _Interrupted(ProductionLog):
    """A log with an action between the claim and the reading."""

    def __init__(self, disk: SimulatedDisk, directory: str, interruption: Any) -> None:
        super().__init__(_AfterClaim(disk, interruption), directory)


class _AfterClaim(Disk):
    def __init__(self, disk: SimulatedDisk, interruption: Any) -> None:
        self._disk = disk
        self._interruption = interruption
        self.claims = 0

    def write_atomically(self, path: str, content: Any) -> None:
        self._disk.write_atomically(path, content)
        self.claims += "generation" in path
        # The second is of what is accepted; then the log is listed.
        if self.claims == 2:
            self._interruption()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def open(self, path: str) -> Any:
        return self._disk.open(path)

    def list(self, directory: str) -> Any:
        return self._disk.list(directory)

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def remove(self, *paths: str) -> None:
        self._disk.remove(*paths)

    def make_directory(self, path: str) -> None:
        pass

    def why_untrusted(self, path: str) -> str | None:
        return None


def test_two_owners_at_any_interleaving_never_both_write() -> None:
    """Later owners read each record whose append was not refused exactly once."""
    for seed in range(300):
        random = Random(seed)
        disk = SimulatedDisk(random)
        logs: list[ProductionLog] = []
        accepted: list[bytes] = []
        for number in range(30):
            if not logs or random.random() < 0.15:
                logs.append(owned(disk, f"{number:04x}"))
            log = random.choice(logs)
            record = b"%d" % number
            try:
                log.append(record)
                accepted.append(record)
            except (StaleWriterError, SnapshotError):
                assert log is not logs[-1]

        assert accepted == content_of(disk)


def test_a_stopped_process_finds_its_append_refused_when_it_continues(tmp_path: pathlib.Path) -> None:
    """A real zombie: SIGSTOP, a successor, SIGCONT, and then its late write."""
    directory = f"{tmp_path}/log"
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def write() -> None:
        log = owned(LocalDisk(), "aa", directory)
        log.append(b"in time")
        theirs.send("has written")
        theirs.recv()
        try:
            log.append(b"too late")
            theirs.send("accepted")
        except StaleWriterError as error:
            theirs.send(str(error))

    zombie = context.Process(target=write)
    zombie.start()
    assert "has written" == ours.recv()
    assert zombie.pid is not None
    os.kill(zombie.pid, signal.SIGSTOP)
    successor = owned(LocalDisk(), "bb", directory)
    ours.send("go on")
    os.kill(zombie.pid, signal.SIGCONT)

    assert f"{directory}: 00000002-bb has taken over from 00000001-aa" == ours.recv()
    zombie.join()
    successor.append(b"the next")
    assert [b"in time", b"the next"] == content_of(LocalDisk(), directory)


def test_a_log_of_another_version_is_refused_by_name() -> None:
    """The checksum of its head holds, so another version wrote it."""
    head = b"PENSTOCKLOG\x05" + (1).to_bytes(8, "big")
    content = head + crc32(head).to_bytes(4, "big")
    with pytest.raises(UnknownFormatError) as error:
        read_records("kept/productions-00000001-aa", content)
    assert str(error.value).startswith(
        "kept/productions-00000001-aa: found the file 'production log', version 5; expected version 4 of it. Another"
    )
