"""Forks of a process whose other threads hold locks."""

from __future__ import annotations

import subprocess
import sys

# The main thread imports a module, and needs the lock of `logging` meanwhile, as a handler that is collected does.
# The other one is about to fork then, and has that lock; the hook that is registered last is the first that runs.
PROGRAM = """
import importlib.abc, logging, os, sys, threading, time
import penstock.runners.execution.fork_safety

imports, forks = threading.Event(), threading.Event()
os.register_at_fork(before=forks.set)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "there_is_no_such_module":
            imports.set()
            forks.wait()
            time.sleep(0.2)
            logging.getLogger(name)

def fork():
    imports.wait()
    pid = os.fork()
    if pid == 0:
        import wave
        logging.getLogger("in the child")
        os._exit(7)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

statuses = []
sys.meta_path.insert(0, Finder())
thread = threading.Thread(target=fork)
thread.start()
try:
    import there_is_no_such_module
except ImportError:
    pass
thread.join()
import colorsys
print(statuses)
"""


def test_a_thread_forks_while_another_one_imports_and_logs() -> None:
    """Neither waits for the other for ever, and both processes import and log after it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=30)

    assert ("[7]\n", "") == (done.stdout, done.stderr)
