"""A maintained view whose processes, and whose database, are killed again and again: equal to the query's result.

`KILLS=20 pytest tests/io/cdc/test_kills.py` kills more often, and `SEED` chooses the moments and the changes.
With `RUNNER=spark-microbatch` it kills drivers of micro-batches with their JVM and workers.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from kills.killed_copy import KILLS, RUNNER, KilledCopy
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql

from penstock.examples import maintained_view

PROGRAM = Path(__file__).with_name("killed_view.py")

# The transactions before each kill.
EACH = 20

CUSTOMERS = 12
# These customers stay, each in a region of its own, so that a region's row is what the view was after some transaction.
STEADY = 4

DIFFERENCE = """
    (TABLE regions EXCEPT ALL TABLE expected) UNION ALL (TABLE expected EXCEPT ALL TABLE regions)
"""


@pytest.fixture
def own_server() -> Iterator[PostgreSQL]:
    """A database that no other test uses, which keeps what it has committed when it is killed."""
    if reason := why_there_is_no_postgresql():
        pytest.skip(reason)
    with PostgreSQL.lasting() as server:
        yield server


class Shop:
    """The tables, random transactions on them, and what readers may see.

    Attributes:
      seen: the rows of steady regions that the view had, by region; None for no row.
    """

    def __init__(self, server: PostgreSQL, choose: random.Random) -> None:
        self.server = server
        self._choose = choose
        self._order = 0
        maintained_view.create(server.url)
        with self.connect() as connection:
            connection.execute("TRUNCATE orders, customers")
            connection.execute(f"CREATE VIEW expected AS {maintained_view.VIEW}")
            for number in range(STEADY):
                connection.execute("INSERT INTO customers VALUES (%s, %s)", (number, f"steady{number}"))
        self.seen: dict[str, set[Any]] = {f"steady{number}": {None} for number in range(STEADY)}

    def connect(self) -> Any:
        return psycopg.connect(self.server.dsn, autocommit=True)

    def change(self, transactions: int) -> None:
        """Commit transactions, one of five of which is rolled back."""
        with self.connect() as connection:
            for _ in range(transactions):
                with connection.transaction(force_rollback=self._choose.random() < 0.2) as transaction:
                    for _ in range(self._choose.randrange(1, 6)):
                        self._statement(connection)
                    rows = self._steady(connection)
                    if not transaction.force_rollback:
                        for region, seen in self.seen.items():
                            seen.add(rows.get(region))

    def _steady(self, connection: Any) -> dict[str, Any]:
        sql = "SELECT region, orders, total FROM expected WHERE region LIKE 'steady%'"
        return {region: (orders, int(total)) for region, orders, total in connection.execute(sql)}

    def _statement(self, connection: Any) -> None:
        choose = self._choose
        customer, order = choose.randrange(CUSTOMERS), choose.randrange(max(1, self._order))
        match choose.randrange(8):
            case 0 | 1 | 2:
                self._order += 1
                values = (self._order, customer, choose.randrange(1, 100))
                connection.execute("INSERT INTO orders VALUES (%s, %s, %s)", values)
            case 3:
                connection.execute("UPDATE orders SET price = price + 1 WHERE id = %s", (order,))
            case 4:
                connection.execute("UPDATE orders SET customer = %s WHERE id = %s", (customer, order))
            case 5:
                connection.execute("DELETE FROM orders WHERE id = %s", (order,))
            case 6 if customer >= STEADY:
                sql = "INSERT INTO customers VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET region = excluded.region"
                connection.execute(sql, (customer, choose.choice(["north", "south", "east"])))
            case 7 if customer >= STEADY:
                connection.execute("DELETE FROM customers WHERE id = %s", (customer,))

    def differs(self) -> list[Any]:
        """The rows that the table has, and the view hasn't, or the reverse: at one moment."""
        with self.connect() as connection:
            return list(connection.execute(DIFFERENCE))

    def look(self, wrong: list[Any], is_over: threading.Event) -> None:
        """Read the table again and again; note rows that the view never had."""
        while not is_over.wait(0.1):
            with suppress(psycopg.OperationalError), self.connect() as connection:
                rows = {region: (orders, int(total)) for region, orders, total in connection.execute("TABLE regions")}
                wrong += [
                    (region, rows.get(region)) for region, seen in self.seen.items() if rows.get(region) not in seen
                ]


class KilledView(KilledCopy):
    """The program that maintains the view."""

    def __init__(self, directory: Path, shop: Shop) -> None:
        super().__init__(directory, PROGRAM, (shop.server.url, RUNNER))
        self.shop = shop

    def kill_database(self, choose: random.Random) -> None:
        """Kill the database, or stop it, and start it again after a while."""
        server = self.shop.server
        port = server.port
        choose.choice([server.kill, server.stop])()
        time.sleep(choose.uniform(0, 1))
        server.start(port)
        self.kills += 1


def test_the_table_equals_the_view(own_server: PostgreSQL, tmp_path: Path) -> None:
    """Whenever the changes so far are processed; and a reader never sees a row that the view never had."""
    choose = random.Random(int(os.environ.get("SEED", "1")))
    shop = Shop(own_server, choose)
    view = KilledView(tmp_path, shop)
    wrong: list[Any] = []
    is_over = threading.Event()
    looking = threading.Thread(target=shop.look, args=(wrong, is_over))
    shop.change(EACH)
    try:
        view.start()
        looking.start()
        # A database that isn't there when a program is started is an error.
        assert view.wait_for(lambda: not shop.differs()), view.log
        for number in range(KILLS):
            shop.change(EACH)
            time.sleep(choose.uniform(0, 0.5))
            match number % 3:
                case 0:
                    view.kill_database(choose)
                case 1:
                    view.kill_worker(choose)
                case 2:
                    view.kill_all()
            shop.change(EACH)
            assert view.wait_for(lambda: not shop.differs()), (shop.differs(), view.log)
        (tmp_path / "drain").touch()
        assert 0 == view.ended(), view.log
    finally:
        is_over.set()
        if looking.is_alive():
            looking.join()
        view.clean_up()

    assert [] == wrong
    assert [] == shop.differs()
    assert KILLS == view.kills
