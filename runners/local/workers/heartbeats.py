"""Heartbeats of workers, which distinguish a process that hangs from one that computes for long.

Each worker has a thread that counts, five times a second, in memory that it shares with the job's process.  User code
that waits or computes doesn't keep the thread from counting; a process that is stopped, or swapped out, doesn't count.
Nor does one in C code that never releases the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

_COUNT = struct.Struct("=Q")

# Seconds from one beat to the next, and without one until a warning.
BEAT = 0.2
SILENCE = 0.8

# Seconds between two looks after which the silence of the workers isn't known.
_BLINK = 0.5

# Seconds until the first beat, at most: a new interpreter imports what the pipeline needs.
_FIRST = 120.0

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


class Heartbeats:
    """Counts of heartbeats, in shared memory.

    Args:
      file: the shared file, in a worker.
      clock: seconds, of any beginning.

    Attributes:
      workers: how many there are.
      file: the shared file.

    >>> now = iter([0.0, 0.25, 0.5, 0.75])
    >>> beats = Heartbeats(1, clock=lambda: next(now))
    >>> beats.beat(0)
    >>> beats.silences(), beats.silences(), beats.silences()
    ([0.0], [0.25], [0.5])
    """

    def __init__(self, workers: int, file: BinaryIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if file is None:
            # Without a name, so it is removed when the last process closes it.
            file = tempfile.TemporaryFile(prefix="penstock-heartbeats-")  # noqa: SIM115
            file.truncate(workers * _COUNT.size)
        self.workers = workers
        self.file = file
        self._memory = mmap.mmap(file.fileno(), workers * _COUNT.size)
        self._clock = clock
        # For each worker the last count, and when it was first seen.
        self._seen = [(0, clock())] * workers
        self._looked = self._seen[0][1]

    def beat(self, number: int) -> None:
        """Count a heartbeat of the worker of this number."""
        (count,) = _COUNT.unpack_from(self._memory, number * _COUNT.size)
        _COUNT.pack_into(self._memory, number * _COUNT.size, count + 1)

    def begin(self, number: int) -> None:
        """Reset the count of a worker that was replaced."""
        _COUNT.pack_into(self._memory, number * _COUNT.size, 0)
        self._seen[number] = 0, self._clock()

    def beat_on(self, number: int, sleep: Callable[[float], Any] = time.sleep) -> None:
        """Send heartbeats from a thread, for as long as this process lives."""

        def count() -> None:
            while True:
                self.beat(number)
                sleep(BEAT)

        threading.Thread(target=count, name="penstock heartbeat", daemon=True).start()

    def silences(self) -> list[float]:
        """Return the seconds since the last heartbeat of each worker; to be called often.

        The count begins anew if this process was stopped, or busy, itself.  A worker's first heartbeat may take two
        minutes.
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
        """Release the memory."""
        self._memory.close()
        self.file.close()


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent, or the parent's thread that started it, has ended.

    Only Linux can.  Elsewhere a worker notices at its next message that the job is gone.

    Args:
      parent: its process id, as it was before this process was started.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before that.
    if os.getppid() != parent:
        os._exit(0)
