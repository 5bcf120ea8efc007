"""A real PostgreSQL server on the loopback interface."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Self

from servers.loopback_server import LoopbackServer

USER, PASSWORD = "penstock", "drawn:from/the@well"

# Nothing is kept: a test doesn't wait for the disk.
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "40"}
# Changes of tables are read from slots.
SETTINGS |= {"wal_level": "logical", "max_replication_slots": "40", "max_wal_senders": "4"}


def program(name: str) -> str | None:
    """The path of one of the server's programs, of the newest version that there is; Debian has them off the PATH."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]))
    return found[-1] if found else shutil.which(name)


def why_there_is_no_postgresql() -> str | None:
    """Return the missing prerequisite, or None."""
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


class PostgreSQL(LoopbackServer):
    """A server with an empty database.

    Attributes:
      settings: of the next start.
    """

    name = "PostgreSQL"
    stop_signal = signal.SIGINT
    kill_signal = signal.SIGQUIT

    def __init__(self, directory: pathlib.Path) -> None:
        user = _user()
        as_user = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        super().__init__(directory, **as_user)
        self.settings = dict(SETTINGS)
        if user is not None:
            os.chown(directory, user.pw_uid, user.pw_gid)
        self._make_data()

    @classmethod
    @contextlib.contextmanager
    def lasting(cls) -> Iterator[Self]:
        """A running one that keeps what it has committed when it is killed."""
        with cls.running() as server:
            port = server.port
            server.stop()
            server.settings["synchronous_commit"] = "on"
            server.start(port)
            yield server

    def _make_data(self) -> None:
        password = self.directory / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o644)
        self._run(
            "initdb",
            *("--pgdata", str(self.directory / "data"), "--username", USER, "--pwfile", str(password)),
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

    def command(self) -> list[str]:
        settings = self.settings | {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(program("postgres")), "-D", str(self.directory / "data"), *arguments]

    def answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.dsn, connect_timeout=5).close()
            return True
        return False

    def _run(self, name: str, *arguments: str) -> None:
        ran = subprocess.run(
            [str(program(name)), *arguments],
            cwd=self.directory,
            env=os.environ | {"PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
            **self._process,
        )
        if ran.returncode:
            raise RuntimeError(f"PostgreSQL's {name} failed:\n{ran.stdout}{ran.stderr}")


class Standby(PostgreSQL):
    """A standby of another server, which follows it until it is promoted.  It has no slots."""

    def __init__(self, directory: pathlib.Path, primary: PostgreSQL) -> None:
        self._primary = primary
        super().__init__(directory)

    def _make_data(self) -> None:
        of_primary = ("--host", "127.0.0.1", "--port", str(self._primary.port), "--username", USER, "--no-password")
        data = ("--pgdata", str(self.directory / "data"), "--checkpoint", "fast", "--write-recovery-conf", "--no-sync")
        self._run("pg_basebackup", *of_primary, *data)

    def copy_slot(self, name: str) -> None:
        """Copy a slot of the primary, as programs do that manage failovers; both servers are stopped."""
        copied = self.directory / "data" / "pg_replslot" / name
        shutil.copytree(self._primary.directory / "data" / "pg_replslot" / name, copied)
        user = _user()
        if user is not None:
            for path in (copied, *copied.iterdir()):
                os.chown(path, user.pw_uid, user.pw_gid)
