"""A worker ends with the process that started it, also while a function of the user's doesn't return."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel kill this process as soon as its parent has ended, or the parent's thread that forked it.

    Only Linux can.  Elsewhere a worker notices that nobody hears it when it is done with what it is doing.
    """
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before that.
    if os.getppid() != parent.pid:
        os._exit(0)
