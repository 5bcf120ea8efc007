"""Tests are divided between processes, and reported by the first of them (see `spark_beside`)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CONFTEST = """
import pathlib

import pytest
from support.suite import spark_beside


def pytest_addoption(parser):
    spark_beside.add_options(parser)


def pytest_configure(config):
    config.addinivalue_line("markers", "spark: ...")
    spark_beside.register(config)


def pytest_collection_modifyitems(items):
    items.sort(key=spark_beside.is_on_spark)


@pytest.fixture(scope="session")
def closed():
    yield
    pathlib.Path("closed").touch()
"""

SUITE = """
import os
import pathlib
import warnings

import pytest


@pytest.mark.spark
def test_on_spark(closed):
    warnings.warn("it gets old")
    pathlib.Path("spark").write_text(str(os.getpid()))


@pytest.mark.spark
def test_fails_on_spark():
    print("what it said")
    assert 1 == 2


@pytest.mark.spark
def test_skipped_on_spark():
    pytest.skip("no reason")


@pytest.mark.parametrize("n", range(3))
def test_local(n):
    pathlib.Path(f"local-{n}").write_text(str(os.getpid()))
"""

# A test waits until another process has run one, too: if none ever does, it fails.
SHARED = """
import os
import pathlib
import time

import pytest


@pytest.mark.parametrize("n", range(2))
def test_local(n):
    pathlib.Path(__file__).with_suffix(f".{n}").write_text(str(os.getpid()))
    deadline = time.monotonic() + 60
    while len({path.read_text() for path in pathlib.Path().glob("*/*.[01]")} - {""}) < 2:
        assert time.monotonic() < deadline, "no other process runs a test"
        time.sleep(0.02)
"""

ON_SPARK = """
import os
import pathlib

import pytest


@pytest.mark.spark
def test_on_spark():
    pathlib.Path("spark").write_text(str(os.getpid()))
"""

WAITS = """
import pathlib
import time

import pytest


@pytest.mark.spark
def test_on_spark(closed):
    pathlib.Path("begun").touch()
    time.sleep(600)


def test_local():
    pass
"""

DIES = """
import atexit
import os
import signal

import pytest


@pytest.mark.spark
def test_on_spark():
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.spark
def test_another():
    pass


def test_local():
    pass
"""


def started(directory: Path, suite: str, *flags: str) -> subprocess.Popen[str]:
    """A run of a suite, as a process."""
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_suite.py").write_text(suite)
    (directory / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parents[1]}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", "--spark-beside", *flags]
    # Without the options that this suite was started with.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_all_tests_are_reported_once_as_if_one_process_had_run_them(tmp_path: Path) -> None:
    """With what failed and what it said, the reasons of skips, and warnings."""
    run = started(tmp_path, SUITE, "-rs", "--junitxml=junit.xml")
    output, _ = run.communicate(timeout=120)

    assert 1 == run.returncode
    assert "...." in output.splitlines()[0]
    assert re.search(r"^1 failed, 4 passed, 1 skipped, 1 warning in ", output, re.MULTILINE), output
    assert {"E       assert 1 == 2", "what it said"} <= set(output.splitlines())
    assert "UserWarning: it gets old" in output
    assert "no reason" in output
    cases = [case.get("name") for case in ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")]
    local = [f"test_local[{n}]" for n in range(3)]
    assert [*local, "test_on_spark", "test_fails_on_spark", "test_skipped_on_spark"] == cases


def test_those_on_spark_have_a_process_of_their_own(tmp_path: Path) -> None:
    """The first process runs none of them, and the second no others."""
    names = [f"test_{n}" for n in range(4)]
    for name in names:
        (tmp_path / f"{name}.py").write_text(SUITE.replace('"spark"', f'"spark-{name}"').replace("local-", f"{name}-"))
    run = started(tmp_path, "")
    run.communicate(timeout=120)

    local = {int((tmp_path / f"{name}-{n}").read_text()) for name in names for n in range(3)}
    on_spark = {int((tmp_path / f"spark-{name}").read_text()) for name in names}
    assert run.pid not in on_spark
    assert 1 <= len(local) <= 4
    assert 1 <= len(on_spark) <= 3
    assert len(local | on_spark) <= 5


def test_more_processes_help_with_the_others(tmp_path: Path) -> None:
    """They take modules from the end and from the middle.  Each is run by one process, and reported in the order of the
    list."""
    names = [f"{directory}/test_{n}" for directory in "bc" for n in range(3)]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(SHARED.replace("< 2", "< 3"))
    run = started(tmp_path, ON_SPARK, "--junitxml=junit.xml", "--import-mode=importlib")
    output, _ = run.communicate(timeout=120)

    assert 0 == run.returncode, output
    assert re.search(r"^13 passed in ", output, re.MULTILINE), output
    cases = [case.get("classname") for case in ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")]
    assert [*(name.replace("/", ".") for name in names for _ in range(2)), "test_suite"] == cases
    processes = {name: {(tmp_path / f"{name}.{n}").read_text() for n in range(2)} for name in names}
    assert [1] * len(names) == list(map(len, processes.values()))
    assert {str(run.pid)} == processes["b/test_0"]
    assert str(run.pid) not in processes["c/test_2"] | processes["c/test_0"]
    assert processes["c/test_2"] != processes["c/test_0"]


def test_more_processes_help_with_those_on_spark(tmp_path: Path) -> None:
    """They do so when they have run their part of the others: what forks comes before Spark."""
    on_spark = SHARED.replace("@pytest", "@pytest.mark.spark\n@pytest", 1).replace("*/*", "b/*").replace("< 2", "< 3")
    names = {"b": [f"b/test_{n}" for n in range(4)], "c": [f"c/test_{n}" for n in range(2)]}
    for directory, suite in {"b": on_spark, "c": SHARED.replace("*/*", "c/*")}.items():
        (tmp_path / directory).mkdir()
        for name in names[directory]:
            (tmp_path / f"{name}.py").write_text(suite)
    run = started(tmp_path, "", "--junitxml=junit.xml", "--import-mode=importlib")
    output, _ = run.communicate(timeout=120)

    assert 0 == run.returncode, output
    assert re.search(r"^12 passed in ", output, re.MULTILINE), output
    cases = [case.get("classname") for case in ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")]
    assert [name.replace("/", ".") for name in (*names["c"], *names["b"]) for _ in range(2)] == cases
    processes = {name: {(tmp_path / f"{name}.{n}").read_text() for n in range(2)} for name in names["b"]}
    assert [1] * 4 == list(map(len, processes.values()))
    assert {str(run.pid)} not in processes.values()
    ran: dict[str, list[str]] = {}
    for file in sorted(tmp_path.glob("*/*.[01]"), key=lambda file: file.stat().st_mtime_ns):
        ran.setdefault(file.read_text(), []).append(file.parent.name)
    orders = [list(dict.fromkeys(folders)) for folders in ran.values()]
    assert ["c", "b"] in orders
    assert ["b", "c"] not in orders


# Its tests are in one of three modules, which differ in size, and of which two use a server.
SIZES = """
import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def broker():
    with open("brokers", "a") as brokers:
        print(os.getpid(), file=brokers)


@pytest.mark.spark
@pytest.mark.parametrize("n", range(SIZE))
def test_on_spark(n):
    pass
"""


def test_the_largest_modules_on_spark_are_run_first_and_those_of_a_server_in_one_process(tmp_path: Path) -> None:
    """So the processes end at about the same time, and one of them starts the server."""
    for name, size in {"a": 2, "b": 3, "c": 1, "d": 1}.items():
        suite = SIZES.replace("SIZE", str(size)).replace("def test_on_spark(n)", "def test_on_spark(n, broker)")
        (tmp_path / f"test_{name}.py").write_text(suite if name in "cd" else suite.replace("(n, broker)", "(n)"))
    run = started(tmp_path, "", "--junitxml=junit.xml")
    output, _ = run.communicate(timeout=120)

    assert 0 == run.returncode, output
    cases = [case.get("classname") for case in ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")]
    assert ["test_c", "test_d", *["test_b"] * 3, *["test_a"] * 2] == cases
    # A fixture of each module.
    assert 2 == len(brokers := (tmp_path / "brokers").read_text().split())
    assert 1 == len(set(brokers))


def test_a_second_process_that_dies_fails_the_run(tmp_path: Path) -> None:
    """Its last output is shown, and the first test that wasn't run."""
    run = started(tmp_path, DIES)
    output, _ = run.communicate(timeout=120)

    assert 1 == run.returncode
    died = "the process of the (spark|shared|middle|quarter) tests has ended with -11"
    assert re.search(f"{died}, and not run test_suite.py::test_on_spark", output)
    assert "Fatal Python error: Segmentation fault" in output


def test_a_process_that_breaks_off_between_two_tests_fails_the_run(tmp_path: Path) -> None:
    """All tests are reported, but nobody would know that others had to run the rest."""
    run = started(tmp_path, DIES.replace("os.kill(os.getpid(), signal.SIGSEGV)", "atexit.register(os._exit, 9)"))
    output, _ = run.communicate(timeout=120)

    assert 3 == run.returncode, output
    assert re.search(r"^3 passed", output, re.MULTILINE), output
    assert re.search("the process of the (spark|shared|middle|quarter) tests has ended with 9:", output)


def test_an_interrupt_ends_both(tmp_path: Path) -> None:
    """Those on Spark are told, and close what they have opened."""
    run = started(tmp_path, WAITS)
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists() and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=120)

    assert 2 == run.returncode, output
    assert "KeyboardInterrupt" in output
    assert (tmp_path / "closed").exists()
