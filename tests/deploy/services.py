"""A job in a tree like that of an operator's machine, run by the tests' service manager from penstock's unit file."""

from __future__ import annotations

import json
import pathlib
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request

from servers.service_manager import state_of
from support.programs.running_program import wait_until

ROOT = pathlib.Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "penstock@.service"
MANAGER = ROOT / "tests" / "servers" / "service_manager.py"

# Numbers into a table with the version that has processed them, and sums by remainder in one long window.
PIPELINE = """
import pathlib
import time
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

HERE = pathlib.Path({root!r})
{more}

with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.1)) as p:
    numbers = p | "Read" >> beam.io.GenerateSequence(0, None, 300, 1) | "Work" >> beam.Map({work})
    rows = numbers | "Row" >> beam.Map(lambda n: {{"n": n, "version": {version!r}}})
    columns = ["n", "version"]
    _ = rows | "Write" >> beam.io.WriteToSQLite(HERE / "out.db", "numbers", columns=columns, count_column="times")
    windows = numbers | beam.WindowInto(beam.window.FixedWindows(10**9))
    sums = windows | beam.Map(lambda n: (n % 3, n)) | {label!r} >> beam.CombinePerKey(sum)
    _ = sums | "WriteSums" >> beam.io.WriteToSQLite(HERE / "out.db", "sums", "remainder", columns=["remainder", "sum"])
"""


class Service:
    """The job `clicks` below a root directory."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.home = root / "srv" / "penstock" / "clicks"
        self.checkpoints = root / "var" / "lib" / "penstock" / "clicks" / "checkpoints"
        self.home.mkdir(parents=True)
        self.checkpoints.parent.mkdir(parents=True)
        (root / "etc" / "penstock").mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        flags = f"--health_port={self.port} --worker_timeout=1 --health_timeout=1 --max_restarts=1"
        (root / "etc" / "penstock" / "clicks.conf").write_text(f"FLAGS={flags}\n")

    def release(self, version: str, more: str = "", work: str = "abs", label: str = "Sum") -> pathlib.Path:
        """Install a release."""
        directory = self.home / version
        (directory / "venv" / "bin").mkdir(parents=True)
        (directory / "venv" / "bin" / "penstock").symlink_to(pathlib.Path(sys.executable).parent / "penstock")
        program = PIPELINE.format(root=str(self.root), more=more, work=work, version=version, label=label)
        (directory / "pipeline.py").write_text(program)
        return directory

    def use(self, release: pathlib.Path) -> None:
        """Make a release the current one."""
        (self.home / "current").symlink_to(release)

    def command(self, name: str) -> list[str]:
        """A command to the service manager."""
        return [sys.executable, str(MANAGER), name, str(UNIT), str(self.root), "clicks"]

    def manage(self, name: str) -> int:
        """Give a command to the service manager; its exit status."""
        return subprocess.run(self.command(name), timeout=240, check=False).returncode

    @property
    def state(self) -> str:
        """The state of the service."""
        return state_of(self.root)

    @property
    def journal(self) -> str:
        """The log of the service and of its manager."""
        return (self.root / "journal").read_text()

    @property
    def pid(self) -> int:
        """The main process."""
        return int((self.root / "pid").read_text())

    def health(self, path: str) -> int | None:
        """Return the status of a health check; None without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                json.load(answer)
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code
        except OSError:
            return None

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Rows of the tables; empty before there are any."""
        if not (self.root / "out.db").exists():
            return []
        connection = sqlite3.connect(f"file:{self.root / 'out.db'}?mode=ro", uri=True, timeout=60)
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    def wait_for_more(self, numbers: int = 50) -> None:
        """Until so many more numbers are published."""
        count = "SELECT count(*) FROM numbers"
        (before,) = self.rows(count)[0] if self.rows(count) else (0,)
        wait_until(
            lambda: [row for row in self.rows(count) if row[0] > before + numbers], f"more numbers:{self.journal}"
        )

    def drain(self) -> None:
        """End the stream, and check that each number is published once and in the sums once."""
        penstock = str(pathlib.Path(sys.executable).parent / "penstock")
        command = [penstock, "checkpoints", "drain", str(self.checkpoints)]
        subprocess.run(command, check=True, capture_output=True, timeout=240)
        wait_until(lambda: self.state == "inactive", "the end of the service")
        rows = self.rows("SELECT n, times FROM numbers ORDER BY n")
        numbers = list(range(len(rows)))
        assert [(n, 1) for n in numbers] == rows
        expected = [(r, sum(n for n in numbers if n % 3 == r)) for r in range(3)]
        assert expected == self.rows("SELECT remainder, sum FROM sums ORDER BY remainder")
