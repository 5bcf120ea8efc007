"""Tables of PostgreSQL whose changes are read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.postgresql import PostgreSQL, why_there_is_no_postgresql
from support.io.postgres_tables import Tables


@pytest.fixture
def tables(postgresql: PostgreSQL) -> Iterator[Tables]:
    """Tables on the server that all tests share."""
    made = Tables(postgresql)
    try:
        yield made
    finally:
        made.clean_up()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgreSQL]:
    """A server that tests of this module stop and start."""
    if reason := why_there_is_no_postgresql():
        pytest.skip(reason)
    with PostgreSQL.running() as server:
        yield server
