"""Workers whose parent was killed, which they must notice within a second."""

from __future__ import annotations

import pathlib
import signal
import time

from running_program import wait_until

# Seconds: it takes some milliseconds anywhere.
PATIENCE = 1.0


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only its exit code."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_dying(pid: int) -> bool:
    """Whether a process is gone, or at least can do nothing any more: SIGKILL waits for it, as it may for a disk."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    status = dict(line.split(":\t", 1) for line in lines)
    # One that is on its way out has no memory left.
    waiting = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return "VmSize" not in status or bool(waiting & 1 << signal.SIGKILL - 1)


def wait_for_orphans(workers: list[int]) -> None:
    """Wait until these are gone, whose parent has just ended: that they must have noticed by now, or soon."""
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in workers if not is_dying(pid)]:
        assert time.monotonic() < deadline, f"workers {left} outlive the process that started them"
        time.sleep(0.002)
    wait_until(lambda: not any(map(is_running, workers)), "the end of the workers")
