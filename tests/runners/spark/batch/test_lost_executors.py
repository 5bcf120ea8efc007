"""A batch on a real cluster that loses an executor while a stage runs has the results of one without.

`make executor_kills` loses many, and more than executors, and one in a run over Spark Connect.
"""

from __future__ import annotations

import pathlib

import pytest
from kills.killed_executors import BOTH, LossyRun

pytestmark = pytest.mark.spark

SIZE = 5_000


def test_ids_are_the_same_in_two_sinks_if_an_executor_dies_between_them(
    standalone_cluster: str, tmp_path: pathlib.Path
) -> None:
    """The ids are random, and the blocks that the executor has kept for the second sink are computed again."""
    run = LossyRun(tmp_path / "run", "ids", SIZE, [(13, "executor")], BOTH)
    run.run([f"--spark_master={standalone_cluster}"])

    assert ["13-executor"] == run.losses
    assert 1 <= run.repetitions
