"""What the tests of sources and sinks share: real servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers.postgresql import PostgreSQL, running_postgresql, why_there_is_no_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A real PostgreSQL, started for the first test that asks."""
    if reason := why_there_is_no_postgresql():
        pytest.skip(reason)
    with running_postgresql() as server:
        yield server
