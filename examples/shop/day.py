"""A day in the shop: orders that come, change and are cancelled; payments that come, are corrected and withdrawn.

A day says what the tables have to be, computed without the pipeline.

>>> day = Day(seed=1)
>>> changes = day.go_on(100)
>>> len(changes)
100
>>> sum(line[1] for line in day.dashboard()) == len(day.lake())
True
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import attrs

from .application import Order, Payment
from .prices import PRICES

# What the shop's database has, with what the server needs so that it logs the former rows of changes.
TABLES = """
    CREATE TABLE orders (id int PRIMARY KEY, item text NOT NULL, quantity int NOT NULL);
    ALTER TABLE orders REPLICA IDENTITY FULL;
    CREATE TABLE dashboard (
        category text PRIMARY KEY, orders bigint NOT NULL, due bigint NOT NULL, paid bigint NOT NULL
    )
"""


@attrs.frozen
class Change:
    """A change of a row.

    Attributes:
      before, after: the row; None before it was made, and after it is gone.
    """

    before: Order | Payment | None
    after: Order | Payment | None

    @property
    def of_order(self) -> bool:
        """Whether it is a change of an order; otherwise it is one of a payment."""
        return isinstance(self.after or self.before, Order)


class Day:
    """What has happened so far.

    Args:
      seed: chooses what happens.
    """

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._orders: dict[int, Order] = {}
        self._payments: dict[int, Payment] = {}
        self._made = 0

    def go_on(self, number: int) -> list[Change]:
        """Let things happen, and return them in their order."""
        return [self._next() for _ in range(number)]

    def _next(self) -> Change:
        choose = self._choose
        kind = choose.random()
        if kind < 0.4 or not self._orders or not self._payments:
            if self._orders and (kind < 0.2 or not self._payments):
                order = choose.choice(list(self._orders.values()))
                due = order.quantity * PRICES[order.item][1]
                return self._set(self._payments, Payment(self._number(), order.id, choose.randint(1, due)))
            return self._set(self._orders, self._order(self._number()))
        if kind < 0.6:
            return self._set(self._orders, self._order(choose.choice(list(self._orders))))
        if kind < 0.7:
            return self._remove(self._orders)
        if kind < 0.9:
            payment = choose.choice(list(self._payments.values()))
            return self._set(self._payments, payment._replace(amount=choose.randint(1, 50)))
        return self._remove(self._payments)

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _order(self, id: int) -> Order:
        return Order(id, self._choose.choice(list(PRICES)), self._choose.randint(1, 9))

    def _set(self, rows: dict[int, Any], row: Order | Payment) -> Change:
        before, rows[row.id] = rows.get(row.id), row
        return Change(before, row)

    def _remove(self, rows: dict[int, Any]) -> Change:
        return Change(rows.pop(self._choose.choice(list(rows))), None)

    # What the tables have to be

    def lake(self) -> list[tuple[int, str, str, int, int]]:
        """Return the rows of the table in the lake, in the order of their ids."""
        paid = dict.fromkeys(self._orders, 0)
        for payment in self._payments.values():
            if payment.order_id in paid:
                paid[payment.order_id] += payment.amount
        return [
            (order.id, order.item, PRICES[order.item][0], order.quantity * PRICES[order.item][1], paid[order.id])
            for order in sorted(self._orders.values())
        ]

    def dashboard(self) -> list[tuple[str, int, int, int]]:
        """Return the rows of the dashboard, in the order of the categories."""
        sums: dict[str, list[int]] = {}
        for _, _, category, due, paid in self.lake():
            line = sums.setdefault(category, [0, 0, 0])
            for place, n in enumerate((1, due, paid)):
                line[place] += n
        return [(category, *line) for category, line in sorted(sums.items())]  # type: ignore[misc]


def happen(changes: Iterable[Change], url: str, servers: str) -> None:
    """Write changes: of orders to the database, and of payments to Kafka, as Debezium does."""
    import psycopg
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    with psycopg.connect(url) as database:
        for change in changes:
            if change.of_order:
                _write_order(database, change)
            else:
                row: Any = change.after or change.before
                producer.produce("payments", json.dumps(envelope(change)).encode(), str(row.id).encode())
    if producer.flush(60):
        raise TimeoutError("Kafka doesn't take the payments")


def _write_order(database: Any, change: Change) -> None:
    if change.after is None:
        assert change.before is not None
        database.execute("DELETE FROM orders WHERE id = %s", (change.before.id,))
    elif change.before is None:
        database.execute("INSERT INTO orders VALUES (%s, %s, %s)", change.after)
    else:
        _, item, quantity = change.after
        database.execute("UPDATE orders SET item = %s, quantity = %s WHERE id = %s", (item, quantity, change.after.id))


def envelope(change: Change) -> dict[str, Any]:
    """Return a change as Debezium writes it.

    >>> envelope(Change(None, Payment(1, 2, 5)))
    {'op': 'c', 'before': None, 'after': {'id': 1, 'order_id': 2, 'amount': 5}, 'source': {'table': 'payments'}}
    """
    op = "d" if change.after is None else "c" if change.before is None else "u"
    before, after = (None if row is None else row._asdict() for row in (change.before, change.after))
    return {"op": op, "before": before, "after": after, "source": {"table": "payments"}}
