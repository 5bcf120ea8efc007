"""The program of docs/connectors/bigquery.md runs as it is written."""

from __future__ import annotations

import pytest
from servers.bigquery_server import BigQueryServer
from support.programs.document_code import programs


def test_the_program_writes(bigquery: BigQueryServer, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs("docs/connectors/bigquery.md", __file__)
    exec(program, {})

    assert "('penstock:shop.orders', {'id': 'many'})" == capsys.readouterr().out.strip()
    assert [{"id": 1, "item": "tea"}, {"id": 2, "item": "milk"}] == bigquery.rows("orders")
