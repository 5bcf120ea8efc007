"""The Spark tests in a second process, beside the one that runs all others: `pytest --spark-beside`, as in `make test`.

The first process collects everything, starts the second, runs its own tests, and then reports those on Spark as if it
had run them: there is one list of failures, one line at the end, one exit status and one junit file.

Why not pytest-xdist?  It gives each test to any idle worker.  Tests that fork must not run in a process that talks to a
JVM, and each worker would start a Spark session of its own.  xdist's workers also run threads, which are unsafe to fork
from.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import pytest

# Seconds: how often to look for reports, and how long the second process may take to stop its JVM when told to end.
PERIOD = 0.05
PATIENCE = 30.0


def is_on_spark(item: pytest.Item) -> bool:
    """Whether a test belongs to the second process."""
    return item.get_closest_marker("spark") is not None


def add_options(parser: pytest.Parser) -> None:
    """Add the flag, and the internal one of the second process."""
    parser.addoption("--spark-beside", action="store_true", help="run the tests on Spark in a second process")
    parser.addoption("--spark-reports", metavar="FILE", help=argparse.SUPPRESS)


def register(config: pytest.Config) -> None:
    """Register the plugin of this process, if the flags request it."""
    if config.option.spark_reports:
        config.pluginmanager.register(SparkReports(config, pathlib.Path(config.option.spark_reports)), "spark-reports")
    elif config.option.spark_beside:
        config.pluginmanager.register(SparkBeside(config), "spark-beside")


# --- The first process


class SparkBeside:
    """Starts the second process after collection, and reports its tests in place."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-spark-tests-")
        self._file = pathlib.Path(self._directory.name, "reports")
        self._log = pathlib.Path(self._directory.name, "log")
        self._reports: dict[str, list[dict[str, Any]]] = {}
        self._finished: set[str] = set()
        # What has been read of the file, and how many tests are still to be reported.
        self._read = 0
        self._left = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Start the second process if it has tests to run."""
        self._left = sum(map(is_on_spark, session.items))
        if not self._left or session.testsfailed or self._config.option.collectonly:
            return
        self._file.touch()
        # One junit file and one cache are written, by the first process.
        more = [f"--spark-reports={self._file}", "--junitxml=", "-o", f"cache_dir={self._directory.name}/cache"]
        arguments = [argument for argument in self._config.invocation_params.args if argument != "--spark-beside"]
        with open(self._log, "wb") as log:
            # In a process group of its own: what tests send to theirs isn't meant for it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *arguments, *more],
                cwd=self._config.invocation_params.dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Forward the reports of a Spark test from the second process instead of running it."""
        if self._process is None or not is_on_spark(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        while item.nodeid not in self._finished:
            # In this order: what it wrote before it ended is read.
            code = self._process.poll()
            if not self._read_reports():
                if code is not None:
                    item.session.shouldfail = self._without_reports(item, code)
                    return True
                time.sleep(PERIOD)
        for data in self._reports.pop(item.nodeid):
            # JSON has no tuples, and a skipped test's file, line and reason must be one.
            if isinstance(data["longrepr"], list):
                data["longrepr"] = tuple(data["longrepr"])
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        self._left -= 1
        return True

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

    def _without_reports(self, item: pytest.Item, code: int) -> str:
        last = self._log.read_text(errors="replace")[-4000:]
        return f"the process of the Spark tests has ended with {code}, and not run {item.nodeid}:\n{last}"

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Stop the second process, however the run ended."""
        if self._process is not None and not (self._left == 0 and self._wait()):
            # As for Ctrl-C: fixtures are torn down.
            self._process.send_signal(signal.SIGINT)
            if not self._wait():
                self._process.kill()
                self._process.wait()
        self._directory.cleanup()

    def _wait(self) -> bool:
        assert self._process is not None
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        return True


# --- The second process


class SparkReports:
    """Runs only the Spark tests, and writes their reports for the first process."""

    def __init__(self, config: pytest.Config, file: pathlib.Path) -> None:
        self._config = config
        self._file = file
        self._first = os.getppid()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the tests of the first process."""
        items[:] = filter(is_on_spark, items)

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
