"""A worker ends with the process that started it, also while a function of the user's doesn't return."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent has ended, or the parent's thread that started it.

    Only Linux can.  Elsewhere a worker notices that nobody hears it when it is done with what it is doing.

    Args:
      parent: its process id, as it was before this process was started.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before that.
    if os.getppid() != parent:
        os._exit(0)
