"""New interpreters for the template process and for spawned workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

# The program's folders come last: its modules may have the names of others.
# Garbage isn't collected while modules are imported: that took a sixth of the time, and they leave almost none.
_PROGRAM = """
import gc, importlib.util, json, sys
gc.disable()
path, origin, module, function, named, *numbers = sys.argv[1:]
path = json.loads(path)
sys.path += [entry for entry in path if entry not in sys.path]
found = importlib.util.find_spec("penstock")
if found is None or found.origin != origin:
    sys.path[:] = path
getattr(importlib.import_module(module), function)(named, *map(int, numbers))
"""

# They are for the program: Ctrl-C, and SIGTERM, which may be sent to a group.
_FOR_THE_PROGRAM = (signal.SIGINT, signal.SIGTERM)


def import_path() -> list[str]:
    """Return the absolute entries of `sys.path`; in a working directory that was deleted there is nothing to import."""
    found = []
    for entry in sys.path:
        with suppress(FileNotFoundError):
            found.append(os.path.abspath(entry))
    return found


def start_interpreter(function: str, descriptors: Sequence[int], named: str = "") -> subprocess.Popen[bytes]:
    """Start an interpreter that calls a function with a name, the id of this process and the descriptors.

    It has an empty standard input, no other descriptors but the standard output and error, and doesn't run the program.
    The function calls `ignore_signals` first.  It is called with the garbage collector off.

    Args:
      function: its module, a colon, and its name.
    """
    arguments = [json.dumps(import_path()), str(sys.modules["penstock"].__file__), *function.split(":"), named]
    arguments += map(str, (os.getpid(), *descriptors))
    # Those of the program's interpreter, such as -O, -W and -X.  With -P no module in the working directory takes the
    # place of one of the standard library.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    # A process inherits what the thread that starts it has blocked.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_THE_PROGRAM)
    try:
        return subprocess.Popen(
            [sys.executable, *flags, "-P", "-c", _PROGRAM, *arguments], stdin=subprocess.DEVNULL, pass_fds=descriptors
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def ignore_signals() -> None:
    """Ignore the signals that are for the program, in a process that it has started, and block none."""
    for number in _FOR_THE_PROGRAM:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
