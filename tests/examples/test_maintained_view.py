"""A table of PostgreSQL that follows two others: equal to the query's result."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers.postgresql import PostgreSQL
from support.programs.running_program import wait_until

import penstock as beam
from penstock.examples import maintained_view
from penstock.options.pipeline_options import PipelineOptions


class Shop:
    """A database of the test's own."""

    def __init__(self, server: PostgreSQL) -> None:
        self.url = server.url.replace("/postgres", "/view")

    def run(self, sql: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def is_equal(self) -> bool:
        """Whether the table is what the query gives, and isn't empty."""
        rows = self.run("SELECT * FROM regions ORDER BY region")
        return rows != [] and rows == self.run(f"{maintained_view.VIEW} ORDER BY region")


@pytest.fixture
def shop(postgresql: PostgreSQL) -> Iterator[Shop]:
    with psycopg.connect(postgresql.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE view")
        try:
            yield Shop(postgresql)
        finally:
            slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'maintained_view'"
            connection.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM ({slots}) s")
            connection.execute("DROP DATABASE view WITH (FORCE)")


def test_the_table_follows_the_changes(shop: Shop, tmp_path: pathlib.Path) -> None:
    """Orders and customers that come, move and go; and those that did while the pipeline was stopped."""
    maintained_view.create(shop.url)
    options = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 0.1}
    for statements in (
        ["UPDATE orders SET customer = 2 WHERE id = 1", "DELETE FROM orders WHERE id = 2"],
        ["UPDATE customers SET region = 'west' WHERE id = 2", "INSERT INTO orders VALUES (9, 1, 5), (10, 3, 1)"],
    ):
        p = beam.Pipeline(options=PipelineOptions([], **options))
        maintained_view.build(p, shop.url)
        result = p.run()
        wait_until(shop.is_equal, "the table equals the view")
        shop.run("; ".join(statements))
        wait_until(shop.is_equal, "the table equals the view")
        result.stop_with_savepoint()
        shop.run("UPDATE orders SET price = price + 1")


@pytest.mark.usefixtures("spark")
def test_a_run_on_spark_in_batch_writes_the_table_once(shop: Shop) -> None:
    """Of the rows that there are."""
    maintained_view.run([f"--url={shop.url}", "--create", "--runner=spark-batch"])
    assert shop.is_equal()
