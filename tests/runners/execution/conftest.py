"""Fixtures of several tests of this directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.runners.execution.spilling.rocksdb import SpillDatabase


@pytest.fixture(scope="module")
def database() -> Iterator[SpillDatabase]:
    """A database for spilled entries; those of other tests may be in it."""
    database = SpillDatabase()
    yield database
    database.close()
