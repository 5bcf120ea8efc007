"""The stack of another thread, as text that needs none of its frames.

`faulthandler` reads the stacks without making objects of the frames, which another thread may be leaving.

>>> import threading
>>> [entry.name for entry in stack_of_thread(threading.get_ident())][-1]
'stack_of_thread'
"""

from __future__ import annotations

import faulthandler
import re
from traceback import FrameSummary

# Compiled when they are needed first.
_THREAD = r"(?:Current thread|Thread) 0x([0-9a-f]+) "
_FRAME = r'  File "(.*)", line (\d+) in (.*)'
_ESCAPED = r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}"


def stack_of_thread(thread: int) -> list[FrameSummary]:
    """Return the stack of a thread, the innermost frame last.

    It is empty if the thread has ended, and if a hundred threads have begun after it.
    """
    # Few runs need it, and each would pay for what it imports.
    import tempfile

    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        text = file.read().decode("ascii", "replace")
    stack: list[FrameSummary] = []
    is_wanted = False
    for line in text.splitlines():
        if found := re.match(_THREAD, line):
            is_wanted = int(found[1], 16) == thread
        elif is_wanted and (found := re.fullmatch(_FRAME, line)):
            file_name, name = (re.sub(_ESCAPED, _unescaped, part) for part in (found[1], found[3]))
            stack.append(FrameSummary(file_name, int(found[2]), name, lookup_line=False))
    stack.reverse()
    return stack


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[0][2:], 16))
