"""BigQuery's server, and a table of a test's own."""

from __future__ import annotations

import itertools

import pytest
from servers.bigquery_server import BigQueryServer

_numbers = itertools.count()


@pytest.fixture
def bigquery(bigquery_server: BigQueryServer, monkeypatch: pytest.MonkeyPatch) -> BigQueryServer:
    """The server, whose address is in the environment."""
    for name, value in bigquery_server.environment.items():
        monkeypatch.setenv(name, value)
    return bigquery_server


@pytest.fixture
def name() -> str:
    """The name of a table."""
    return f"table{next(_numbers)}"
