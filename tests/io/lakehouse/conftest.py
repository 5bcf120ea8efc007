"""A table of each format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.io.lakehouse_tables import LakeTable, table_of


@pytest.fixture(params=["delta", "iceberg"])
def format(request: pytest.FixtureRequest) -> str:
    """The name of each format in turn."""
    name: str = request.param
    return name


@pytest.fixture
def table(format: str, tmp_path: Path) -> LakeTable:
    """A table that doesn't exist yet."""
    return table_of(format, tmp_path)


@pytest.fixture
def other_table(format: str, tmp_path: Path) -> Any:
    """Another one."""
    return table_of(format, tmp_path, "other")
