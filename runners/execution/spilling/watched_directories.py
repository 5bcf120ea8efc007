"""Watched directories: temporary directories that are removed when this process ends, in whatever way.

Workers of Spark exit without notice or are killed, so a shell waits for the end of a pipe that is open as long as the
process.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from ....sdk.errors import UnsupportedError

if TYPE_CHECKING:
    from subprocess import Popen

# One shell for all directories of a process.  It reads their paths, and removes them at the end of the pipe.
_REMOVE = 'while IFS= read -r path; do set -- "$@" "$path"; done; rm -rf -- "$@"'

_watched: set[str] = set()
# With the process that has started it: a forked one starts its own.
_watcher: tuple[int, Popen[bytes]] | None = None
_lock = threading.RLock()


def watch(path: str) -> None:
    """Have a directory removed when this process ends."""
    global _watcher
    if "\n" in path:
        raise UnsupportedError(f"State can't be spilled to {path!r}: expected a path without line ends")
    with _lock:
        if _watcher is None or _watcher[0] != os.getpid():
            # Imported here, because most runs don't spill, and it takes milliseconds.
            import subprocess

            quiet = subprocess.DEVNULL
            shell = ["/bin/sh", "-c", _REMOVE]
            _watched.clear()
            _watcher = (
                os.getpid(),
                subprocess.Popen(
                    shell, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True, cwd="/"
                ),
            )
        _watched.add(path)
        pipe = _watcher[1].stdin
        assert pipe is not None
        pipe.write(os.fsencode(path) + b"\n")
        pipe.flush()


def watch_no_more(path: str) -> None:
    """Note that a directory is removed; with the last one the shell ends."""
    global _watcher
    with _lock:
        _watched.discard(path)
        if _watched or _watcher is None or _watcher[0] != os.getpid():
            return
        (_, watcher), _watcher = _watcher, None
    assert watcher.stdin is not None
    watcher.stdin.close()
    watcher.wait()
