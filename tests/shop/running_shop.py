"""The shop with its servers: what happens in it, what is killed, and what its tables are."""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from kafka.broker import KafkaBroker
from kafka.packages import why_there_is_no_broker
from kills.killed_program import KilledProgram
from servers.loopback_server import LoopbackServer
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql
from support.programs.polling import Watch, watched

from penstock.examples.shop.day import TABLES, Change, Day, happen
from penstock.examples.shop.prices import PRICES
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


class History:
    """What orders and payments have ever been: all that a reader may see while the application catches up."""

    def __init__(self) -> None:
        self._orders: set[tuple[int, str, str, int]] = set()
        # By order and payment.
        self._amounts: dict[int, dict[int, set[int]]] = {}

    def add(self, changes: Iterable[Change]) -> None:
        """Add changes, before they happen."""
        for change in changes:
            row: Any = change.after
            if row is None:
                continue
            if change.of_order:
                category, price = PRICES[row.item]
                self._orders.add((row.id, row.item, category, row.quantity * price))
            else:
                self._amounts.setdefault(row.order_id, {}).setdefault(row.id, {0}).add(row.amount)

    def has(self, row: tuple[Any, ...]) -> bool:
        """Return True for a row of the table in the lake that may have been right at some time."""
        id, *_, paid = row
        sums = {0}
        for amounts in self._amounts.get(id, {}).values():
            sums = {total + amount for total in sums for amount in amounts}
        return row[:-1] in self._orders and paid in sums

    def orders_of(self, category: str) -> int:
        """Return the number of orders that were ever in a category."""
        return len({id for id, _, of_order, _ in self._orders if of_order == category})


class RunningShop(KilledProgram):
    """The application and its servers.

    Attributes:
      watch: what a reader has seen that looks at the tables all the time.
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
        self._history = History()
        self.watch = Watch()
        # Held while a server is down that the reader would need.
        self._pause = threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def running(cls, directory: pathlib.Path, seed: str) -> Iterator[RunningShop]:
        """One that lives as long as the block."""
        import psycopg

        with PostgreSQL.lasting() as database, KafkaBroker.running() as broker, PriceService.running() as prices:
            with psycopg.connect(database.dsn, autocommit=True) as connection:
                connection.execute("CREATE DATABASE shop")
            shop = cls(directory, seed, database, broker, prices)
            with psycopg.connect(shop.url) as connection:
                connection.execute(TABLES)
            broker.create_topic("payments", 2)
            shop.start()
            try:
                with watched(shop.look, bool, pause=0.2) as shop.watch:
                    yield shop
            finally:
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
        happening = self._day.go_on(changes)
        with self._pause:
            self._history.add(happening)
        happen(happening, self.url, self._broker.address)

    def kill(self, part: str) -> None:
        """Kill a part, and start it again if nothing else does."""
        time.sleep(self._choose.uniform(0, 1))
        if part == "a worker":
            self.kill_worker(self._choose)
        elif part == "the application":
            self.kill_all()
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
        assert [] == self.watch.wrong
        return time.monotonic() - began

    def check(self) -> None:
        """Compare both tables with what they have to be, and raise `AssertionError` if they differ."""
        assert self._day.dashboard() == self.dashboard(), self.log
        assert self._day.lake() == self.orders(), self.log
        assert [] == self.watch.wrong

    def look(self) -> list[str]:
        """Read both tables, and return what is in them that must not be."""
        with self._pause:
            rows, lines = self.orders(), self.dashboard()
            wrong = [f"an order that never was: {row}" for row in rows if not self._history.has(row)]
            wrong += [
                f"sums that can't be: {(category, orders, due, paid)}"
                for category, orders, due, paid in lines
                if not 0 < orders <= self._history.orders_of(category) or due < 0 or paid < 0
            ]
        ids = [row[0] for row in rows]
        return wrong + [f"order {id} is there {count} times" for id, count in Counter(ids).items() if count > 1]
