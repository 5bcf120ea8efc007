"""Looks at the frames of a thread that goes on meanwhile."""

from __future__ import annotations

import subprocess
import sys

# Garbage whose finalizer lets the other thread go on is due when a look begins.  The stack of that thread is in memory
# that is given back when it returns.
PROGRAM = """
import gc, sys, threading, time
from penstock.sdk.user_code.thread_frames import frames_of

class Garbage:
    def __init__(self):
        self.own = self
    def __del__(self):
        time.sleep(0)

def deep(n):
    return 0 if n == 0 else deep(n - 1) + 1

def work():
    while time.monotonic() < end:
        deep(3_000)

sys.setrecursionlimit(10_000)
end = time.monotonic() + 2
worker = threading.Thread(target=work)
worker.start()
looks = 0
while worker.is_alive():
    gc.set_threshold(0)
    for _ in range(10):
        Garbage()
    with frames_of(worker.ident) as frame:
        gc.set_threshold(10)
        while frame is not None:
            frame = frame.f_back
    looks += 1
print(looks)
"""


def test_finalizers_do_not_run_during_a_look() -> None:
    """With Python 3.11 the interpreter would crash."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)

    assert 0 == done.returncode, done.stderr
    assert int(done.stdout) > 0
