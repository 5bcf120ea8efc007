"""The program of docs/connectors/bigquery.md runs as it is written."""

from __future__ import annotations

import pytest
from servers.bigquery_server import BigQueryServer
from support.programs.document_code import programs


def test_the_program_writes_and_reads(bigquery: BigQueryServer, capsys: pytest.CaptureFixture[str]) -> None:
    exec("".join(programs("docs/connectors/bigquery.md", __file__)), {})

    printed = capsys.readouterr().out.splitlines()
    assert ["('penstock:shop.orders', {'id': 'many'})", "{'item': 'milk'}", "{'n': 2}"] == sorted(printed)
    assert [{"id": 1, "item": "tea"}, {"id": 2, "item": "milk"}] == bigquery.rows("orders")
