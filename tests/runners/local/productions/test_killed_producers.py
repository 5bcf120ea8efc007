"""Processes that are killed while a pipeline runs by productions: what comes of it is right (see `kills`)."""

from __future__ import annotations

import pathlib
import secrets

import pytest
from kills.killing import killed_often


@pytest.mark.parametrize(("whom", "kills", "at_least"), [("worker", 4, 3), ("coordinator", 3, 2)])
def test_results_are_right_whoever_is_killed(tmp_path: pathlib.Path, whom: str, kills: int, at_least: int) -> None:
    """Each goes on from its own log; in tables and files everything is there, once."""
    seed = secrets.token_hex(4)
    print(f"seed {seed}")

    assert killed_often(tmp_path, whom, seed, kills, ("--delivery=strong",)) >= at_least
