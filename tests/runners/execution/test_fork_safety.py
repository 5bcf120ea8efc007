"""Forks of a process whose other threads hold locks."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


# Threads write to the files of handlers; one of the handlers logs to the other one, and imports.  A child that waits
# for a file's lock would wait for ever.
LOGS = """
import logging, os, signal, sys, threading, time
import penstock.runners.execution.fork_safety

class Onward(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        sys.modules.pop("colorsys", None)
        import colorsys
        logging.getLogger("second").warning("onward: %s", record.msg)

logging.getLogger("first").addHandler(Onward(os.devnull))
logging.getLogger("second").addHandler(logging.FileHandler(os.devnull))

def log(name):
    while True:
        logging.getLogger(name).warning("x" * 100)

for name in ("first", "second"):
    threading.Thread(target=log, args=[name], daemon=True).start()
began = time.monotonic()
for number in range(60):
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        logging.getLogger("first").warning("in the child")
        os._exit(7)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7:
        print("fork", number, "hung")
        break
print("done", flush=True)
os._exit(0)
"""

# A handler waits for something that never comes.
HANGS = """
import logging, os, threading, time
import penstock.runners.execution.fork_safety

class Hanging(logging.Handler):
    def emit(self, record):
        hangs.set()
        threading.Event().wait()

hangs = threading.Event()
logging.getLogger("hangs").addHandler(Hanging())
threading.Thread(target=logging.getLogger("hangs").warning, args=["x"], daemon=True).start()
hangs.wait()
for _ in range(2):
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert 1 < time.monotonic() - began < 20
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("program", [LOGS, HANGS], ids=["logs", "hangs"])
def test_a_process_forks_while_other_threads_log(program: str) -> None:
    """A child can log to the same file; a handler that hangs doesn't prevent a fork."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)

    assert ("done\n", "", 0) == (done.stdout, done.stderr, done.returncode)
