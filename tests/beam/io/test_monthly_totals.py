"""The example that reads a table of BigQuery, and writes two others."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

from servers.bigquery_server import BigQueryServer

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "beam" / "monthly_totals.py"

ORDERS = [
    {"item": "tea", "day": "2026-01-05", "cups": 2},
    {"item": "milk", "day": "2026-01-31", "cups": 3},
    {"item": "tea", "day": "2026-01-31", "cups": 2},
    {"item": "tea", "day": "2026-02-01", "cups": 1},
    {"item": "milk", "day": "2026-02-02", "cups": 0},
]


def _ordered(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((row["month"], row["item"], row["cups"]) for row in rows)


def test_tables_are_replaced(bigquery: BigQueryServer) -> None:
    """A second run has the results of the first one."""
    orders = bigquery.make("orders_of_months", [("item", "STRING"), ("day", "DATE"), ("cups", "INTEGER")])
    assert [] == bigquery.client().insert_rows_json(orders.replace(":", "."), ORDERS, retry=None)
    for _ in range(2):
        flags = [f"--orders={orders}", "--totals=penstock:shop.totals", "--best=penstock:shop.best"]
        command = [sys.executable, "-m", "penstock", "run", "--beam", str(EXAMPLE), *flags]
        subprocess.run(command, env={**os.environ, **bigquery.environment}, check=True, timeout=120)
        assert [("2026-01", "milk", 3), ("2026-01", "tea", 4), ("2026-02", "tea", 1)] == _ordered(
            bigquery.rows("totals")
        )
        assert [("2026-01", "tea", 4), ("2026-02", "tea", 1)] == _ordered(bigquery.rows("best"))
