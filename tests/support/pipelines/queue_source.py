"""A queue of files as an unbounded source, whose elements are removed when they are acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sources.unbounded import UnboundedReader, UnboundedSource
from penstock.windowing import Timestamp
from penstock.windowing.timestamp import MAX_MICROS, MIN_MICROS


def queue_of(directory: Path, numbers: int) -> Path:
    """Make a directory with a file for each of so many numbers, from 0 on."""
    directory.mkdir()
    for number in range(numbers):
        (directory / str(number)).touch()
    return directory


class Queue(UnboundedSource[int]):
    """Files, each named by a number, which are removed once a checkpoint covers them: they can't be read again.

    Args:
      stop: the number that ends the queue; None if it doesn't end.
    """

    replayable = False

    def __init__(self, directory: Path, stop: int | None = None) -> None:
        self.directory = directory
        self.stop = stop

    def partitions(self) -> Sequence[str]:
        return ["queue"]

    def open(self, partition: str, offset: int | None) -> QueueReader:
        return QueueReader(self.directory, offset or 0, self.stop)


class QueueReader(UnboundedReader[int]):
    """Its offset is the number of files."""

    def __init__(self, directory: Path, read: int, stop: int | None) -> None:
        self.directory = directory
        self.read = read
        self.stop = stop

    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        waiting = sorted(int(path.name) for path in self.directory.iterdir() if int(path.name) >= self.read)
        taken = waiting[:max_elements]
        self.read += len(taken)
        return Bundle(taken, now.micros) if taken else None

    def offset(self) -> int:
        return self.read

    def acknowledge(self, offset: int) -> None:
        for path in self.directory.iterdir():
            if int(path.name) < offset:
                path.unlink()

    def watermark(self, now: Timestamp) -> int:
        return MAX_MICROS if self.is_finished() else MIN_MICROS

    def is_finished(self) -> bool:
        return self.read == self.stop
