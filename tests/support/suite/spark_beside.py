"""The Spark tests in a second process, beside those that run all others: `pytest --spark-beside`, as in `make test`.

The first process starts the second, runs its own tests, and then reports those on Spark as if it had run them: there is
one list of failures, one line at the end, one exit status and one junit file.

A third process helps both: first with the tests that aren't on Spark, then, with a Spark session of its own, with those
that are.  It takes modules from the end of each list while the first or second takes them from its beginning.  The
process that creates the file with the module's name runs it.

Why not pytest-xdist?  It gives each test to any idle worker.  Tests that fork must not run in a process that talks to a
JVM, and each worker would start a Spark session of its own.  xdist's workers also run threads, which are unsafe to fork
from.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
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
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from support.suite import time_limits

# Seconds: how often to look for reports, and how long the second process may take to stop its JVM when told to end.
PERIOD = 0.05
PATIENCE = 30.0

# The exit statuses of a session that has come to its end.
_ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)

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
    """Which process runs a module: the first that creates the file with its name, with the process's name in it.

    The Spark tests of a module count as one module, and its other tests as another.
    """

    def __init__(self, directory: pathlib.Path, process: str) -> None:
        self._directory = directory
        self._process = process
        self._owners: dict[pathlib.Path, str] = {}

    def are_ours(self, item: pytest.Item) -> bool:
        """Whether this process runs the module of a test; it does if no other has said so."""
        file = self._file(item)
        if file not in self._owners:
            # Linked when it has been written: nobody reads a part of the name.
            with tempfile.NamedTemporaryFile("w", dir=self._directory, prefix="new-") as new:
                new.write(self._process)
                new.flush()
                with contextlib.suppress(FileExistsError):
                    os.link(new.name, file)
        return self.owner(item) == self._process

    def owner(self, item: pytest.Item) -> str | None:
        """Return the name of the process that runs the module of a test; None if none has begun it."""
        file = self._file(item)
        if file not in self._owners and file.exists():
            self._owners[file] = file.read_text()
        return self._owners.get(file)

    def _file(self, item: pytest.Item) -> pathlib.Path:
        # No directory in a file's name.
        kind = "spark" if is_on_spark(item) else "other"
        return self._directory / f"{kind}-{urllib.parse.quote(str(item.path), safe='')}"


def parts(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that aren't on Spark, and those that are."""
    found: tuple[list[pytest.Item], list[pytest.Item]] = [], []
    for item in items:
        found[is_on_spark(item)].append(item)
    return found


def last_modules_first(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Return tests in the reverse order of their modules; those of a module keep theirs."""
    modules: dict[pathlib.Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    return itertools.chain.from_iterable(reversed(modules.values()))


def pass_over(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tear down what the next test doesn't need, as if this one had been run."""
    item.session._setupstate.teardown_exact(nextitem)


# --- The first process


class SparkBeside:
    """Starts the other processes, and reports their tests in place."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-spark-tests-")
        self._others: dict[str, Beside] = {}
        self._is_complete = False
        modules = pathlib.Path(self._directory.name, "modules")
        modules.mkdir()
        self._modules = Modules(modules, "first")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Start the other processes, which collect the tests, too, at the same time."""
        if not self._config.option.collectonly:
            self._start("spark")
            self._start("shared")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Refuse tests that the processes wouldn't call by the same name."""
        if other := [item.nodeid for item in session.items if _ADDRESS.search(item.nodeid)]:
            raise pytest.UsageError(f"expected ids without addresses, which differ in each process, got {other[0]}")

    def _start(self, name: str) -> None:
        self._others[name] = Beside(self._config, name, pathlib.Path(self._directory.name))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Forward the reports of another process's test instead of running it."""
        if not is_on_spark(item) and self._modules.are_ours(item):
            return None
        pass_over(item, nextitem)
        self._runs(item).forward(item)
        return True

    def _runs(self, item: pytest.Item) -> Beside:
        """Return the process that runs a test, when one has begun its module; the second if none does."""
        began = time.monotonic()
        while (name := self._modules.owner(item)) is None:
            others = self._others.values()
            patience = min(beside.patience for beside in others)
            if time.monotonic() - began > patience or not any(beside.is_running() for beside in others):
                return self._others["spark"]
            time.sleep(PERIOD)
        return self._others[name]

    def processes(self) -> list[int]:
        """Return the ids of the other processes."""
        return [beside.pid for beside in self._others.values()]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Note whether all tests were reported: there was no interrupt, and no `--exitfirst`.

        A process that has broken off fails the run, though others have run the rest of its tests.
        """
        ran = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        self._is_complete = ran and not session.shouldfail and not session.shouldstop
        reasons = [why for beside in self._others.values() if (why := beside.broken_off())] if self._is_complete else []
        if reasons:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            print("", *reasons, sep="\n", file=sys.stderr)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Stop the other processes, however the run ended."""
        for beside in self._others.values():
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
        self.patience = 4 * limit if limit else math.inf
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

    def is_running(self) -> bool:
        """Whether the process hasn't ended."""
        return self._process.poll() is None

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
            elif time.monotonic() - heard > self.patience:
                item.session.shouldfail = self._without(item, f"has reported nothing for {self.patience:g} s")
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

    def broken_off(self) -> str | None:
        """Return how it has ended before the end of its session; None if it hasn't."""
        if not self._wait() or self._process.returncode in _ENDS:
            return None
        how = f"has ended with {self._process.returncode}"
        return f"the process of the {self._name} tests {how}:\n{self._last_of_log()}"

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


class SomeTests(Reports):
    """Runs modules that no other process has begun."""

    def __init__(self, config: pytest.Config, file: pathlib.Path, name: str) -> None:
        super().__init__(config, file)
        self._modules = Modules(file.with_name("modules"), name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Pass over modules of other processes."""
        if self._modules.are_ours(item):
            return None
        pass_over(item, nextitem)
        return True


class SparkTests(SomeTests):
    """Runs Spark tests, the first modules first."""

    def __init__(self, config: pytest.Config, file: pathlib.Path) -> None:
        super().__init__(config, file, "spark")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the tests of the first process."""
        _, items[:] = parts(items)


class SharedTests(SomeTests):
    """Runs modules without Spark tests and then modules of Spark tests, the last ones first."""

    def __init__(self, config: pytest.Config, file: pathlib.Path) -> None:
        super().__init__(config, file, "shared")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take the modules from the end.  Tests fork only before those on Spark."""
        items[:] = [item for part in parts(items) for item in last_modules_first(part)]
