"""A test that hangs fails, shows what it waited for, and holds up no others (see `time_limits`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

CONFTEST = """
from support.suite import spark_beside
from support.suite import time_limits


def pytest_addoption(parser):
    spark_beside.add_options(parser)
    time_limits.add_option(parser)


def pytest_configure(config):
    config.addinivalue_line("markers", "spark: ...")
    spark_beside.register(config)
    time_limits.register(config, lambda: spark_beside.processes(config))


def pytest_collection_modifyitems(items):
    items.sort(key=spark_beside.is_on_spark)
"""

HANGS = """
import os
import threading
import time

import pytest


def wait_for_ever():
    threading.Event().wait()


@pytest.fixture
def hanging():
    yield
    wait_for_ever()


def test_of_a_thread():
    thread = threading.Thread(target=wait_for_ever, daemon=True)
    thread.start()
    thread.join()


def test_of_a_process():
    pid = os.fork()
    if pid == 0:
        named_in_the_child()
    os.waitpid(pid, 0)


def named_in_the_child():
    wait_for_ever()


def test_that_catches_everything():
    try:
        wait_for_ever()
    except BaseException:
        wait_for_ever()


def test_of_a_tear_down(hanging):
    pass


@pytest.mark.spark
def test_on_spark():
    test_of_a_process()


@pytest.mark.spark
def test_after_it():
    pass


def test_in_time():
    time.sleep(0.01)
"""

WAITS = """
import os

from support.programs import running_program


def test_waits():
    if os.fork() == 0:
        named_in_the_child()
    running_program.PATIENCE = 0.5
    running_program.wait_until(lambda: False, "the moon")


def named_in_the_child():
    import threading
    threading.Event().wait()
"""

LEAVES = """
import threading


def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait).start()
"""


def run(directory: Path, suite: str, *flags: str, conftest: str = CONFTEST) -> tuple[int, str]:
    """Run a suite; return its status, and its output."""
    (directory / "conftest.py").write_text(conftest)
    (directory / "test_suite.py").write_text(suite)
    (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[1]}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", "--time-limit=2", *flags]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_what_hangs_fails_and_all_others_run(tmp_path: Path) -> None:
    """Stacks of threads are in the failure, and those of forked processes in what they write, or in a process's log."""
    status, output = run(tmp_path, HANGS, "--spark-beside")

    assert 1 == status, output
    assert "4 failed, 3 passed, 1 error" in output, output
    assert 5 <= output.count("Over the limit of 2 seconds."), output
    assert "in wait_for_ever" in output
    assert 2 <= output.count("in named_in_the_child")
    assert re.search("The log of the (spark|shared|middle|quarter) tests", output)
    assert "in test_of_a_thread" in output


def test_a_wait_in_vain_shows_what_goes_on(tmp_path: Path) -> None:
    """Also of the processes that were waited for."""
    status, output = run(tmp_path, WAITS)

    assert 1 == status, output
    assert "waited in vain: the moon" in output
    assert "in test_waits" in output
    assert "in named_in_the_child" in output


def test_a_thread_that_is_left_ends_with_the_process(tmp_path: Path) -> None:
    """The status says that something was wrong, though all tests passed."""
    began = time.monotonic()
    status, output = run(tmp_path, LEAVES, conftest=f"{CONFTEST}\ntime_limits.TO_END = 2\n")

    assert 1 == status, output
    assert "1 passed" in output
    assert "Timeout (0:00:02)!" in output
    assert time.monotonic() - began < 60


def test_there_is_no_limit_unless_asked_for(tmp_path: Path) -> None:
    """Someone who debugs a test isn't interrupted."""
    status, output = run(tmp_path, "import time\n\n\ndef test_slow():\n    time.sleep(3)\n", "--time-limit=0")

    assert 0 == status, output
