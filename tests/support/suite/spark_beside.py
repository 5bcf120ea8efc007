"""The Spark tests in a second process, beside those that run all others: `pytest --spark-beside`, as in `make test`.

The first process collects the tests and forks the second.  It runs its own tests, and then reports those on Spark as if
it had run them: there is one list of failures, one line at the end, one exit status and one junit file.

Two more processes help both: first with the tests that aren't on Spark, then, with Spark sessions of their own, with
those that are.  A third one helps with the former only, which wait more.  Of these, the first process takes modules
from the beginning of the list, and the others from its end, its middle and its first quarter.  Of those on Spark all
take the largest module first, so that they end at the same time.  The process that creates the file with the module's
name runs it.  Many tests wait for something, so that five processes keep two cores busy.

Modules on Spark that share a server that takes seconds to start are one, with the name of its fixture.

Why not pytest-xdist?  It gives each test to any idle worker.  Tests that fork must not run in a process that talks to a
JVM, and each worker would start a Spark session of its own.  xdist's workers also run threads, which are unsafe to fork
from.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import urllib.parse
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import pytest
from _pytest import faulthandler, junitxml
from support.suite import time_limits

# Seconds: how often to look for reports, and how long the second process may take to stop its JVM when told to end.
PERIOD = 0.05
PATIENCE = 30.0

# The exit statuses of a session that has come to its end.
_ENDS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)

# The processes that help with tests that aren't on Spark, and which part of the modules come before their first one.
BEGIN_AT = {"shared": 1.0, "middle": 0.5, "quarter": 0.25}

# Those of them that don't go on with the tests on Spark.
WITHOUT_SPARK = ("quarter",)

# Fixtures whose servers take seconds to start.
SERVERS = ("standalone_cluster", "spark_connect", "broker")


def is_on_spark(item: pytest.Item) -> bool:
    """Whether a test belongs to the second process."""
    return item.get_closest_marker("spark") is not None


def add_options(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption("--spark-beside", action="store_true", help="run the tests on Spark in a second process")


def register(config: pytest.Config) -> None:
    """Register the plugin, if the flag requests it."""
    if config.option.spark_beside:
        config.pluginmanager.register(SparkBeside(config), "spark-beside")


def processes(config: pytest.Config) -> list[int]:
    """Return the ids of the other processes, if this is the first one."""
    plugin = config.pluginmanager.get_plugin("spark-beside")
    return [] if plugin is None else plugin.processes()


class Modules:
    """Which process runs a module: the first that creates the file with its name, with the process's name in it.

    The Spark tests of a module count as one module, and its other tests as another; see `module_of`.
    """

    def __init__(self, directory: pathlib.Path, process: str) -> None:
        self._directory = directory
        self._process = process
        self._files: dict[tuple[bool, str], pathlib.Path] = {}
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
        known = is_on_spark(item), module_of(item)
        if known not in self._files:
            # No directory in a file's name.
            kind = "spark" if known[0] else "other"
            self._files[known] = self._directory / f"{kind}-{urllib.parse.quote(known[1], safe='')}"
        return self._files[known]


def parts(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that aren't on Spark, and those that are."""
    found: tuple[list[pytest.Item], list[pytest.Item]] = [], []
    for item in items:
        found[is_on_spark(item)].append(item)
    return found


_SERVER = pytest.StashKey[str]()


def module_of(item: pytest.Item) -> str:
    """Return the path of a test's module; on Spark, the server that it shares with others, if it does."""
    return item.stash.get(_SERVER, str(item.path))


def note_servers(on_spark: Iterable[pytest.Item]) -> None:
    """Note the server of each module that needs one, for `module_of`."""
    items = list(on_spark)
    servers: dict[pathlib.Path, str] = {}
    for server in SERVERS:
        for item in items:
            if server in getattr(item, "fixturenames", ()):
                servers.setdefault(item.path, server)
    for item in items:
        if item.path in servers:
            item.stash[_SERVER] = servers[item.path]


def by_module(items: Iterable[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the tests of each module, in the order of the first ones."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(module_of(item), []).append(item)
    return list(modules.values())


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that aren't on Spark, and then those on Spark: of servers first, then of the largest module."""
    others, on_spark = parts(items)
    note_servers(on_spark)
    modules = sorted(by_module(on_spark), key=lambda own: (module_of(own[0]) not in SERVERS, -len(own)))
    return [*others, *itertools.chain.from_iterable(modules)]


def pass_over(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tear down what the next test doesn't need, as if this one had been run."""
    item.session._setupstate.teardown_exact(nextitem)


# --- The first process


class SparkBeside:
    """Starts the other processes, and reports their tests in place."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # Removed by this process only.
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="penstock-spark-tests-"))
        self._others: dict[str, Beside] = {}
        self._is_complete = False
        modules = self._directory / "modules"
        modules.mkdir()
        self._modules = Modules(modules, "first")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Order the tests."""
        items[:] = in_order(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Fork the other processes.  In each of them pytest goes on, and ends as after a run of its tests."""
        if session.testsfailed or session.config.option.collectonly:
            return
        # What has been collected is never garbage.
        gc.collect()
        gc.freeze()
        # An interrupt comes when all are known.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for name in ("spark", *BEGIN_AT):
            beside = Beside(self._config, name, self._directory)
            if beside.pid == 0:
                self._become(name, beside, session)
                break
            self._others[name] = beside
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _become(self, name: str, beside: Beside, session: pytest.Session) -> None:
        """Take the part of another process in a process that was just forked."""
        config = self._config
        config.pluginmanager.unregister(self)
        for_first = config.pluginmanager.get_plugin("capabilities")
        if for_first is not None:
            config.pluginmanager.unregister(for_first)
        # One junit file and one cache are written, by the first process; pytest's plugins look for this attribute.
        junitxml.pytest_unconfigure(config)
        config.workerinput = {}  # type: ignore[attr-defined]
        beside.take_log()
        if name == "spark":
            tests: SomeTests = SparkTests(config, beside)
        else:
            tests = SharedTests(config, beside, BEGIN_AT[name], name not in WITHOUT_SPARK)
        tests.choose(session.items)
        config.pluginmanager.register(tests, f"{name}-tests")

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
        shutil.rmtree(self._directory, ignore_errors=True)
        # Some libraries print what wasn't collected when the process ended, below the list of failures.
        gc.unfreeze()


class Beside:
    """Another process, with a part of the tests, as the first one sees it.

    Attributes:
      name: what it is called.
      pid: its id; in itself 0.
      file: where its reports are written.
    """

    def __init__(self, config: pytest.Config, name: str, directory: pathlib.Path) -> None:
        self._config = config
        self.name = name
        self.file = directory / f"{name}-reports"
        self._log = directory / f"{name}-log"
        self._code: int | None = None
        self._reports: dict[str, list[dict[str, Any]]] = {}
        self._finished: set[str] = set()
        # How much of the file has been read.
        self._read = 0
        # Seconds without a report: as long as the slowest set-up, call and tear-down may take, one of another test too.
        limit: float | None = config.getoption("--time-limit", None)
        self.patience = 4 * limit if limit else math.inf
        self.file.touch()
        self._log.touch()
        # Otherwise both would write it.
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        with contextlib.suppress(PermissionError):
            # In a process group of its own: what tests send to theirs isn't meant for it.
            os.setpgid(self.pid, 0)

    def take_log(self) -> None:
        """In the process itself: write all output to its log."""
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is not None:
            # Its files are those of the first process.
            capture.stop_global_capturing()
        nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(self._log, os.O_WRONLY | os.O_APPEND)
        own = self._config.stash.get(faulthandler.fault_handler_stderr_fd_key, 2)
        for source, target in ((nothing, 0), (log, 1), (log, 2), (log, own)):
            os.dup2(source, target, inheritable=target <= 2)
        if capture is not None:
            capture.start_global_capturing()
            capture.suspend_global_capture()

    def _ended(self) -> int | None:
        """Return the status with which it has ended; None if it hasn't."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def is_running(self) -> bool:
        """Whether the process hasn't ended."""
        return self._ended() is None

    def forward(self, item: pytest.Item) -> None:
        """Report one of its tests, when it has run it."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        heard = time.monotonic()
        while item.nodeid not in self._finished:
            # In this order: what it wrote before it ended is read.
            code = self._ended()
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
                report.sections.append((f"The log of the {self.name} tests", self._last_of_log()))
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _read_reports(self) -> bool:
        """Read new reports.

        Returns:
          Whether there were any.
        """
        with open(self.file, "rb") as file:
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
        if not self._wait() or self._code in _ENDS:
            return None
        how = f"has ended with {self._code}"
        return f"the process of the {self.name} tests {how}:\n{self._last_of_log()}"

    def _without(self, item: pytest.Item, why: str) -> str:
        last = self._last_of_log()
        return f"the process of the {self.name} tests {why}, and not run {item.nodeid}:\n{last}"

    def _last_of_log(self) -> str:
        return self._log.read_text(errors="replace")[-16_000:]

    def stop(self, is_complete: bool) -> None:
        """Wait for its end if all tests were reported, else interrupt it."""
        if not (is_complete and self._wait()):
            # As for Ctrl-C: fixtures are torn down.
            if self.is_running():
                os.kill(self.pid, signal.SIGINT)
            if not self._wait():
                os.kill(self.pid, signal.SIGKILL)
                self._wait()

    def _wait(self) -> bool:
        deadline = time.monotonic() + PATIENCE
        while self.is_running() and time.monotonic() < deadline:
            time.sleep(PERIOD)
        return not self.is_running()


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


class SomeTests(Reports, ABC):
    """Runs modules that no other process has begun."""

    def __init__(self, config: pytest.Config, beside: Beside) -> None:
        super().__init__(config, beside.file)
        self._modules = Modules(beside.file.with_name("modules"), beside.name)

    @abstractmethod
    def choose(self, items: list[pytest.Item]) -> None:
        """Keep the tests that it may run, in its order."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Pass over modules of other processes."""
        if self._modules.are_ours(item):
            return None
        pass_over(item, nextitem)
        return True


class SparkTests(SomeTests):
    """Runs Spark tests."""

    def choose(self, items: list[pytest.Item]) -> None:
        """Keep the tests on Spark."""
        _, items[:] = parts(items)


class SharedTests(SomeTests):
    """Runs modules without Spark tests, and then those of Spark tests.  Tests fork only before those on Spark.

    Args:
      begins: the part of the former modules that come before the first one; after the last, it goes on backwards from
        there.
      goes_on: whether it runs Spark tests, too.
    """

    def __init__(self, config: pytest.Config, beside: Beside, begins: float, goes_on: bool) -> None:
        super().__init__(config, beside)
        self._begins = begins
        self._goes_on = goes_on

    def choose(self, items: list[pytest.Item]) -> None:
        """Order the tests."""
        others, on_spark = parts(items)
        modules = by_module(others)
        first = round(self._begins * len(modules))
        modules = [*modules[first:], *reversed(modules[:first])]
        items[:] = [*itertools.chain.from_iterable(modules), *(on_spark if self._goes_on else ())]
