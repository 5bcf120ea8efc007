"""Fixtures of the tests of the command line."""

from __future__ import annotations

import pathlib

import pytest
from support.programs.command_line import Penstock, command_in


@pytest.fixture
def penstock(tmp_path: pathlib.Path) -> Penstock:
    """The command line in a directory of its own; see `command_in`."""
    return command_in(tmp_path)
