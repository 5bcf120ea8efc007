"""Timestamps that order events of all processes of this machine."""

from __future__ import annotations

import os
import time
from itertools import count

# Nanoseconds of a clock that all processes share, the process, and which of its moments it is.
Moment = tuple[int, int, int]

_moments = count()


def moment() -> Moment:
    """This moment.

    >>> moment() < moment()
    True
    """
    return time.monotonic_ns(), os.getpid(), next(_moments)
