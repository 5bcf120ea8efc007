"""All processes that one has started, and those have: they are of one session, whatever groups they are in."""

from __future__ import annotations

import os
import pathlib
import signal


def session_of(leader: int) -> list[int]:
    """Those of a leader's session that run now."""
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
    """Kill them with SIGKILL, also those that they start meanwhile; at last the process that does it, if it is one."""
    while others := [pid for pid in session_of(leader) if pid != os.getpid()]:
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    if os.getsid(0) == leader:
        os.kill(os.getpid(), signal.SIGKILL)
