"""Looks at the frames of a thread that goes on meanwhile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

from penstock.sdk.user_code.thread_frames import frames_of

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


def test_a_look_within_a_look_ends_with_it() -> None:
    """As by a finalizer of user code, which reports a metric."""
    with frames_of(threading.get_ident()):
        with frames_of(threading.get_ident()) as frame:
            assert frame is not None
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_child_that_is_forked_during_a_look_can_look() -> None:
    """The thread that looked doesn't exist there."""
    begun, over = threading.Event(), threading.Event()

    def look() -> None:
        with frames_of(threading.get_ident()):
            begun.set()
            over.wait()

    thread = threading.Thread(target=look)
    thread.start()
    begun.wait()
    pid = os.fork()
    if pid == 0:
        was_collecting = gc.isenabled()
        with frames_of(threading.get_ident()) as frame:
            found = frame is not None
        os._exit(0 if found and was_collecting and gc.isenabled() else 1)
    _, status = os.waitpid(pid, 0)
    over.set()
    thread.join()

    assert 0 == status
