"""A real PostgreSQL server on the loopback interface, which lives as long as it is used."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

STARTUP_SECONDS = 60.0
SHUTDOWN_SECONDS = 10.0
USER, PASSWORD = "penstock", "drawn:from/the@well"

# Nothing is kept: a test doesn't wait for the disk.
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "40"}


def program(name: str) -> str | None:
    """The path of one of the server's programs, of the newest version that there is; Debian has them off the PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]))
    return found[-1] if found else shutil.which(name)


def why_there_is_no_postgresql() -> str | None:
    """What is missing; None if nothing is."""
    for module in ("sqlalchemy", "psycopg"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    for name in ("initdb", "postgres"):
        if program(name) is None:
            return f"PostgreSQL's {name} is not installed (on Debian: sudo apt-get install postgresql)"
    if os.geteuid() == 0 and _user() is None:
        return "PostgreSQL doesn't run as root, and there is no user postgres"
    return None


def _user() -> pwd.struct_passwd | None:
    """The user that the server runs as, when the tests run as root, which it refuses."""
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    return None


class PostgreSQL:
    """A server in a directory of its own, in a process group of its own."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        self.process: subprocess.Popen[bytes] | None = None
        user = _user()
        self._as_user = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        if user is not None:
            os.chown(directory, user.pw_uid, user.pw_gid)
        password = directory / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o644)
        self._run(
            "initdb",
            *("--pgdata", str(directory / "data"), "--username", USER, "--pwfile", str(password)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )

    @property
    def url(self) -> str:
        """As SQLAlchemy reads it; the password's special characters are escaped."""
        return f"postgresql://{USER}:drawn%3Afrom%2Fthe%40well@127.0.0.1:{self.port}/postgres"

    @property
    def dsn(self) -> str:
        """As psycopg reads it."""
        return f"host=127.0.0.1 port={self.port} user={USER} password={PASSWORD} dbname=postgres"

    def start(self) -> None:
        """Start it on a free port; another, if somebody else was quicker."""
        for attempt in range(3):
            self.port = free_port()
            settings = SETTINGS | {"listen_addresses": "127.0.0.1", "port": str(self.port)}
            settings["unix_socket_directories"] = ""
            arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            with open(self.log, "wb") as log:
                self.process = subprocess.Popen(
                    [str(program("postgres")), "-D", str(self.directory / "data"), *arguments],
                    cwd=self.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    **self._as_user,  # type: ignore[call-overload]
                )
            if self._is_ready():
                return
            self.stop()
            if "Address already in use" not in self.log.read_text(errors="replace") or attempt == 2:
                break
        raise RuntimeError(f"PostgreSQL did not start; its log:\n{self.log.read_text(errors='replace')}")

    def stop(self) -> None:
        """Stop it, connected clients or not."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait(SHUTDOWN_SECONDS)

    def _is_ready(self) -> bool:
        import psycopg

        assert self.process is not None
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return True
            time.sleep(0.05)
        return False

    def _run(self, name: str, *arguments: str) -> None:
        ran = subprocess.run(
            [str(program(name)), *arguments],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            **self._as_user,  # type: ignore[call-overload]
        )
        if ran.returncode:
            raise RuntimeError(f"PostgreSQL's {name} failed:\n{ran.stdout}{ran.stderr}")


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_postgresql() -> Iterator[PostgreSQL]:
    """A server that lives as long as the block.

    Its directory is not one of pytest's, which nobody but their owner may enter.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-postgresql-") as directory:
        server = PostgreSQL(pathlib.Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()
