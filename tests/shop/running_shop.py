"""The shop with its servers: what happens in it, what is killed, and what its tables are."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from kafka.broker import KafkaBroker
from kafka.packages import why_there_is_no_broker
from kills.killed_program import KilledProgram
from kills.sessions import kill_session, session_of
from servers.loopback_server import LoopbackServer
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql

from penstock.examples.shop.day import TABLES, Day, happen
from penstock.io.iceberg.catalog import Catalog

PROGRAM = pathlib.Path(__file__).with_name("program.py")

# What is killed, in turn.
PARTS = ["the application", "a worker", "the web service", "the broker", "the database"]

# Seconds until the tables have to be right.
PATIENCE = 300.0


def why_there_is_no_shop() -> str | None:
    """Return the missing prerequisite, or None."""
    for module, extra in (("pyiceberg", "iceberg"), ("httpx", "enrichment")):
        if importlib.util.find_spec(module) is None:
            return f"the extra {extra} is not installed"
    return why_there_is_no_postgresql() or why_there_is_no_broker()


class PriceService(LoopbackServer):
    """The web service."""

    name = "Prices"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "penstock.examples.shop.prices", str(self.port)]

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False


class RunningShop(KilledProgram):
    """The application and its servers.

    Attributes:
      looks: how often a reader has looked at the tables.
      wrong: what it has seen that must not be.
    """

    def __init__(
        self, directory: pathlib.Path, seed: str, database: PostgreSQL, broker: KafkaBroker, prices: PriceService
    ) -> None:
        super().__init__(directory)
        self._choose = random.Random(seed)
        self._day = Day(self._choose.randrange(1 << 30))
        self._database = database
        self._broker = broker
        self._prices = prices
        self.looks = 0
        self.wrong: list[str] = []
        self._is_over = threading.Event()
        # Held while a server is down that the reader would need.
        self._pause = threading.Lock()
        self._reader = threading.Thread(target=self._look_all_the_time, daemon=True)

    @classmethod
    @contextlib.contextmanager
    def running(cls, directory: pathlib.Path, seed: str) -> Iterator[RunningShop]:
        """One that lives as long as the block."""
        import psycopg

        with PostgreSQL.running() as database, KafkaBroker.running() as broker, PriceService.running() as prices:
            with psycopg.connect(database.dsn, autocommit=True) as connection:
                connection.execute("CREATE DATABASE shop")
            shop = cls(directory, seed, database, broker, prices)
            with psycopg.connect(shop.url) as connection:
                connection.execute(TABLES)
            broker.create_topic("payments", 2)
            shop.start()
            shop._reader.start()
            try:
                yield shop
            finally:
                shop._is_over.set()
                shop._reader.join()
                shop.clean_up()

    @property
    def url(self) -> str:
        """The shop's database."""
        return self._database.url.replace("/postgres", "/shop")

    @property
    def lake(self) -> str:
        return str(self.directory / "lake")

    def start(self) -> None:
        """Start the application, or start it again."""
        arguments = (self.url, self._broker.address, f"http://127.0.0.1:{self._prices.port}", self.lake)
        self.launch(PROGRAM, *arguments)

    # What happens

    def go_on(self, changes: int) -> None:
        """Let things happen in the shop."""
        happen(self._day.go_on(changes), self.url, self._broker.address)

    def kill(self, part: str) -> None:
        """Kill a part, and start it again if nothing else does."""
        time.sleep(self._choose.uniform(0, 1))
        if part == "a worker":
            workers = [pid for pid in session_of(self.process.pid) if pid != self.process.pid]
            if workers:
                os.kill(self._choose.choice(workers), signal.SIGKILL)
        elif part == "the application":
            kill_session(self.process.pid)
            self.process.wait()
            self.start()
        else:
            servers: dict[str, Any] = {
                "the web service": self._prices,
                "the broker": self._broker,
                "the database": self._database,
            }
            server = servers[part]
            with self._pause:
                port = server.port
                self._choose.choice([server.kill, server.stop])()
                time.sleep(self._choose.uniform(0, 2))
                server.start(port)
        self.kills += 1

    def drain(self) -> None:
        """Let the application end."""
        (self.directory / "drain").touch()
        assert 0 == self.ended(), self.log
        self.check()

    # What the tables are

    def dashboard(self) -> list[tuple[Any, ...]]:
        """Return the rows of the dashboard."""
        import psycopg

        with psycopg.connect(self.url) as connection:
            found: list[tuple[Any, ...]] = connection.execute("SELECT * FROM dashboard ORDER BY category").fetchall()
            return found

    def orders(self) -> list[tuple[Any, ...]]:
        """Return the rows of the table in the lake."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            table = Catalog(None, {"warehouse": self.lake}).load("shop.orders", "tests")
        except (NoSuchTableError, NoSuchNamespaceError):
            return []
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def wait_for_tables(self) -> float:
        """Wait until both tables are right.  Return how long that took, in seconds."""
        began = time.monotonic()
        while not (self.dashboard() == self._day.dashboard() and self.orders() == self._day.lake()):
            assert self.process.poll() is None, self.log
            if time.monotonic() - began > PATIENCE:
                self.check()
            time.sleep(0.1)
        assert [] == self.wrong
        return time.monotonic() - began

    def check(self) -> None:
        """Compare both tables with what they have to be, and raise `AssertionError` if they differ."""
        assert self._day.dashboard() == self.dashboard(), self.log
        assert self._day.lake() == self.orders(), self.log
        assert [] == self.wrong

    def _look_all_the_time(self) -> None:
        while not self._is_over.wait(0.2):
            with self._pause:
                self._look()

    def _look(self) -> None:
        ids = [row[0] for row in self.orders()]
        if len(ids) != len(set(ids)):
            self.wrong.append(f"orders that are there twice: {sorted(id for id in set(ids) if ids.count(id) > 1)}")
        lines = self.dashboard()
        if any(orders <= 0 or due < 0 or paid < 0 for _, orders, due, paid in lines):
            self.wrong.append(f"sums that can't be: {lines}")
        self.looks += 1
