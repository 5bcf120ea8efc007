"""A table of a test's own."""

from __future__ import annotations

import itertools

import pytest
from servers.fixtures import bigquery as bigquery

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """The name of a table."""
    return f"table{next(_numbers)}"
