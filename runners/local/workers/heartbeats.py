"""Heartbeats: how a process that hangs is told from one that works for long.

Each worker has a thread that counts, five times a second, in memory that it shares with the process that runs the
pipeline.  User code that waits or computes doesn't keep the thread from counting; a process that is stopped, or swapped
out, doesn't count.  Nor does one in C code that never gives up the interpreter's lock.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

_COUNT = struct.Struct("=Q")

# Seconds from one beat to the next, and after how many without one a worker is worth a warning.
BEAT = 0.2
SILENCE = 0.8

# Seconds: who has not looked for so long doesn't know who was silent.
_BLINK = 0.5

# Seconds until the first beat, at most: a new interpreter imports what the pipeline needs.
_FIRST = 120.0


class Heartbeats:
    """The counts of so many workers.

    Args:
      clock: seconds, of any beginning.

    Attributes:
      workers: how many there are.
      file: what is shared.

    >>> now = iter([0.0, 0.25, 0.5, 0.75])
    >>> beats = Heartbeats(1, clock=lambda: next(now))
    >>> beats.beat(0)
    >>> beats.silences(), beats.silences(), beats.silences()
    ([0.0], [0.25], [0.5])
    """

    def __init__(self, workers: int, file: BinaryIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if file is None:
            # Unnamed, and gone when the last process that has it open is.
            file = tempfile.TemporaryFile(prefix="penstock-heartbeats-")  # noqa: SIM115
            file.truncate(workers * _COUNT.size)
        self.workers = workers
        self.file = file
        self._memory = mmap.mmap(file.fileno(), workers * _COUNT.size)
        self._clock = clock
        # Of each worker the last count, and when it was first seen.
        self._seen = [(0, clock())] * workers
        self._looked = self._seen[0][1]

    def beat(self, number: int) -> None:
        """Count: the worker of this number lives."""
        (count,) = _COUNT.unpack_from(self._memory, number * _COUNT.size)
        _COUNT.pack_into(self._memory, number * _COUNT.size, count + 1)

    def begin(self, number: int) -> None:
        """Another worker has this number now, and is yet to count."""
        _COUNT.pack_into(self._memory, number * _COUNT.size, 0)
        self._seen[number] = 0, self._clock()

    def beat_on(self, number: int, sleep: Callable[[float], Any] = time.sleep) -> None:
        """Count from now on, in a thread, for as long as this process lives."""

        def count() -> None:
            while True:
                self.beat(number)
                sleep(BEAT)

        threading.Thread(target=count, name="penstock heartbeat", daemon=True).start()

    def silences(self) -> list[float]:
        """For how many seconds each worker has not been heard; to be asked often.

        Whoever was stopped too, or busy, begins anew.  Before its first beat a worker is given two minutes.
        """
        now = self._clock()
        was_away = now - self._looked > _BLINK
        self._looked = now
        silences = []
        for number, (last, since) in enumerate(self._seen):
            (count,) = _COUNT.unpack_from(self._memory, number * _COUNT.size)
            if count != last or was_away:
                self._seen[number] = count, now
                silences.append(0.0)
            else:
                silences.append(now - since if count or now - since > _FIRST else 0.0)
        return silences

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
        self.file.close()
