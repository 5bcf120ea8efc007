"""Workers whose parent process was killed; they must exit within a second."""

from __future__ import annotations

import pathlib
import signal
import time

from support.programs.running_program import wait_until

# Seconds: it takes some milliseconds anywhere.
PATIENCE = 1.0


def is_running(pid: int) -> bool:
    """Whether a process is running; a defunct process isn't."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_dying(pid: int) -> bool:
    """Whether a process has exited, or can only wait for its exit: SIGKILL is pending, for example on disk input."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    status = dict(line.split(":\t", 1) for line in lines)
    # One that is on its way out has no memory left.
    waiting = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return "VmSize" not in status or bool(waiting & 1 << signal.SIGKILL - 1)


def wait_for_orphans(workers: list[int]) -> None:
    """Wait until these processes have exited after the end of their parent."""
    deadline = time.monotonic() + PATIENCE
    while left := [pid for pid in workers if not is_dying(pid)]:
        assert time.monotonic() < deadline, f"workers {left} outlive the process that started them"
        time.sleep(0.002)
    wait_until(lambda: not any(map(is_running, workers)), "the end of the workers")
