"""Sessions of processes: a process and all its descendants, in any process group."""

from __future__ import annotations

import os
import pathlib
import signal


def session_of(leader: int) -> list[int]:
    """Return the running processes of a leader's session."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(session) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


def kill_session(leader: int) -> None:
    """Kill all processes of a session, new child processes included; kill this process last, if it belongs to it."""
    while others := [pid for pid in session_of(leader) if pid != os.getpid()]:
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    if os.getsid(0) == leader:
        os.kill(os.getpid(), signal.SIGKILL)
