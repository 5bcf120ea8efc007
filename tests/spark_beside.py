"""The Spark tests in a second process, beside those that run all others: `pytest --spark-beside`, as in `make test`.

The first process collects everything, starts the second, runs its own tests, and then reports those on Spark as if it
had run them: there is one list of failures, one line at the end, one exit status and one junit file.

The others take longer than those on Spark, and many of them wait.  So a third process helps with them: it takes modules
from the end of the list while the first takes them from its beginning.  Whoever creates the file with the module's name
runs it.

Why not pytest-xdist?  It gives each test to any idle worker.  Tests that fork must not run in a process that talks to a
JVM, and each worker would start a Spark session of its own.  xdist's workers also run threads, which are unsafe to fork
from.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import warnings
from typing import Any

import pytest
import time_limits

# Seconds: how often to look for reports, and how long the second process may take to stop its JVM when told to end.
PERIOD = 0.05
PATIENCE = 30.0

_ADDRESS = re.compile(r" at 0x[0-9a-f]{6}")


def is_on_spark(item: pytest.Item) -> bool:
    """Whether a test belongs to the second process."""
    return item.get_closest_marker("spark") is not None


def add_options(parser: pytest.Parser) -> None:
    """Add the flag, and the internal ones of the other processes."""
    parser.addoption("--spark-beside", action="store_true", help="run the tests on Spark in a second process")
    parser.addoption("--spark-reports", metavar="FILE", help=argparse.SUPPRESS)
    parser.addoption("--shared-reports", metavar="FILE", help=argparse.SUPPRESS)


def register(config: pytest.Config) -> None:
    """Register the plugin of this process, if the flags request it."""
    if config.option.spark_reports:
        config.pluginmanager.register(SparkTests(config, pathlib.Path(config.option.spark_reports)), "spark-tests")
    elif config.option.shared_reports:
        config.pluginmanager.register(SharedTests(config, pathlib.Path(config.option.shared_reports)), "shared-tests")
    elif config.option.spark_beside:
        config.pluginmanager.register(SparkBeside(config), "spark-beside")


def processes(config: pytest.Config) -> list[int]:
    """Return the ids of the other processes, if this is the first one."""
    plugin = config.pluginmanager.get_plugin("spark-beside")
    return [] if plugin is None else plugin.processes()


def reports_to_another(config: pytest.Config) -> bool:
    """Whether this process runs a part of the tests for the first one."""
    return bool(config.option.spark_reports or config.option.shared_reports)


class Modules:
    """Which process runs a module: the first that creates the file with its name."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._ours: dict[pathlib.Path, bool] = {}

    def are_ours(self, item: pytest.Item) -> bool:
        """Whether this process runs the module of a test; it does if no other has said so."""
        if item.path not in self._ours:
            # No directory in a file's name.
            file = self._directory / urllib.parse.quote(str(item.path), safe="")
            try:
                file.touch(exist_ok=False)
            except FileExistsError:
                self._ours[item.path] = False
            else:
                self._ours[item.path] = True
        return self._ours[item.path]


def pass_over(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tear down what the next test doesn't need, as if this one had been run."""
    item.session._setupstate.teardown_exact(nextitem)


# --- The first process


class SparkBeside:
    """Starts the other processes, and reports their tests in place."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-spark-tests-")
        self._spark: Beside | None = None
        self._shared: Beside | None = None
        self._is_complete = False
        modules = pathlib.Path(self._directory.name, "modules")
        modules.mkdir()
        self._modules = Modules(modules)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start the other processes if there are tests on Spark, and several modules for the first and the third."""
        if session.testsfailed or self._config.option.collectonly:
            return
        if other := [item.nodeid for item in session.items if _ADDRESS.search(item.nodeid)]:
            raise pytest.UsageError(f"expected ids without addresses, which differ in each process, got {other[0]}")
        if any(map(is_on_spark, session.items)):
            self._spark = self._start("spark")
            if len({item.path for item in session.items if not is_on_spark(item)}) > 1:
                self._shared = self._start("shared")

    def _start(self, name: str) -> Beside:
        return Beside(self._config, name, pathlib.Path(self._directory.name))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Forward the reports of another process's test instead of running it."""
        if is_on_spark(item):
            beside = self._spark
        else:
            beside = None if self._modules.are_ours(item) else self._shared
        if beside is None:
            return None
        pass_over(item, nextitem)
        beside.forward(item)
        return True

    def processes(self) -> list[int]:
        """Return the ids of the other processes."""
        return [beside.pid for beside in (self._spark, self._shared) if beside is not None]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Note whether all tests were reported: there was no interrupt, and no `--exitfirst`."""
        ran = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        self._is_complete = ran and not session.shouldfail and not session.shouldstop

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Stop the other processes, however the run ended."""
        for beside in (self._spark, self._shared):
            if beside is not None:
                beside.stop(self._is_complete)
        self._directory.cleanup()


class Beside:
    """Another process, with a part of the tests, as the first one sees it."""

    def __init__(self, config: pytest.Config, name: str, directory: pathlib.Path) -> None:
        self._config = config
        self._name = name
        self._file = directory / f"{name}-reports"
        self._log = directory / f"{name}-log"
        self._reports: dict[str, list[dict[str, Any]]] = {}
        self._finished: set[str] = set()
        # How much of the file has been read.
        self._read = 0
        # Seconds without a report: as long as the slowest set-up, call and tear-down may take, one of another test too.
        limit: float | None = config.getoption("--time-limit", None)
        self._patience = limit and 4 * limit
        self._file.touch()
        # One junit file and one cache are written, by the first process.
        more = [f"--{name}-reports={self._file}", "--junitxml=", "-o", f"cache_dir={directory}/{name}-cache"]
        arguments = [argument for argument in config.invocation_params.args if argument != "--spark-beside"]
        with open(self._log, "wb") as log:
            # In a process group of its own: what tests send to theirs isn't meant for it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *arguments, *more],
                cwd=config.invocation_params.dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def forward(self, item: pytest.Item) -> None:
        """Report one of its tests, when it has run it."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        heard = time.monotonic()
        while item.nodeid not in self._finished:
            # In this order: what it wrote before it ended is read.
            code = self._process.poll()
            if self._read_reports():
                heard = time.monotonic()
            elif code is not None:
                item.session.shouldfail = self._without(item, f"has ended with {code}")
                return
            elif self._patience is not None and time.monotonic() - heard > self._patience:
                item.session.shouldfail = self._without(item, f"has reported nothing for {self._patience:g} s")
                return
            else:
                time.sleep(PERIOD)
        for data in self._reports.pop(item.nodeid):
            # JSON has no tuples, and a skipped test's file, line and reason must be one.
            if isinstance(data["longrepr"], list):
                data["longrepr"] = tuple(data["longrepr"])
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
            if report.failed and time_limits.OVER in report.longreprtext:
                # With the stacks of processes that were forked from it.
                report.sections.append((f"The log of the {self._name} tests", self._last_of_log()))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _read_reports(self) -> bool:
        """Read new reports.

        Returns:
          Whether there were any.
        """
        with open(self._file, "rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.splitlines():
            kind, nodeid, data = json.loads(line)
            if kind == "report":
                self._reports.setdefault(nodeid, []).append(data)
            elif kind == "finished":
                self._finished.add(nodeid)
            else:
                self._warn(nodeid, **data)
        return bool(whole)

    def _warn(self, nodeid: str, when: str, category: str, text: str, **where: Any) -> None:
        warning = warnings.WarningMessage(text, type(category, (Warning,), {}), **where)
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": warning, "nodeid": nodeid, "when": when, "location": None}
        )

    def _without(self, item: pytest.Item, why: str) -> str:
        last = self._last_of_log()
        return f"the process of the {self._name} tests {why}, and not run {item.nodeid}:\n{last}"

    def _last_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-16_000:]

    def stop(self, is_complete: bool) -> None:
        """Wait for its end if all tests were reported, else interrupt it."""
        if not (is_complete and self._wait()):
            # As for Ctrl-C: fixtures are torn down.
            self._process.send_signal(signal.SIGINT)
            if not self._wait():
                self._process.kill()
                self._process.wait()

    def _wait(self) -> bool:
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        return True


# --- The other processes


class Reports:
    """Writes the reports of this process for the first one."""

    def __init__(self, config: pytest.Config, file: pathlib.Path) -> None:
        self._config = config
        self._file = file
        self._first = os.getppid()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the report of a phase of a test."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._write("report", report.nodeid, data)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write that a test has ended."""
        self._write("finished", nodeid, None)
        if os.getppid() != self._first:
            pytest.exit("the process that wanted to know is gone")

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        """Forward a warning; those of the collection occur in the first process too."""
        if when == "runtest":
            data = {"category": warning_message.category.__name__, "text": str(warning_message.message)}
            where = {"filename": warning_message.filename, "lineno": warning_message.lineno}
            self._write("warning", nodeid, {"when": when, **data, **where})

    def _write(self, kind: str, nodeid: str, data: Any) -> None:
        with open(self._file, "a") as file:
            file.write(json.dumps([kind, nodeid, data]) + "\n")


class SparkTests(Reports):
    """Runs only the Spark tests."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the tests of the first process."""
        items[:] = filter(is_on_spark, items)


class SharedTests(Reports):
    """Runs modules without Spark tests that the first process hasn't begun, the last ones first."""

    def __init__(self, config: pytest.Config, file: pathlib.Path) -> None:
        super().__init__(config, file)
        self._modules = Modules(file.with_name("modules"))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the Spark tests, and take the modules from the end."""
        modules: dict[pathlib.Path, list[pytest.Item]] = {}
        for item in items:
            if not is_on_spark(item):
                modules.setdefault(item.path, []).append(item)
        items[:] = itertools.chain.from_iterable(reversed(modules.values()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Pass over modules of the first process."""
        if self._modules.are_ours(item):
            return None
        pass_over(item, nextitem)
        return True
