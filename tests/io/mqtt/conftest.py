"""Topics of a test's own."""

from __future__ import annotations

import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test has."""
    return f"topic{next(_numbers)}"


@pytest.fixture
def other_topic() -> str:
    return f"topic{next(_numbers)}"
