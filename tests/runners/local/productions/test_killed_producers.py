"""Kills of processes of a pipeline with productions: results are exactly once (see `kills`)."""

from __future__ import annotations

import pathlib
import secrets

import pytest
from kills.killing import killed_often


@pytest.mark.parametrize(("whom", "kills", "at_least"), [("worker", 4, 3), ("coordinator", 3, 2)])
def test_results_are_exactly_once_when_processes_are_killed(
    tmp_path: pathlib.Path, whom: str, kills: int, at_least: int
) -> None:
    """Each subtask resumes from its own log; tables and files have each result once."""
    seed = secrets.token_hex(4)
    print(f"seed {seed}")

    assert killed_often(tmp_path, whom, seed, kills, ("--delivery=strong",)) >= at_least
