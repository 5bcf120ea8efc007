"""The Spark jobs of a run: cancelled, and failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.runners.spark.jobs import Jobs, raise_original
from penstock.sdk.errors import RunnerError


class Tracker:
    """Tells of one job with one stage: at each question, the next status of the job and number of its tasks."""

    def __init__(self, *answers: tuple[str, int]) -> None:
        self._answers: Iterator[tuple[str, int]] = iter(answers)
        self._tasks = 0
        self.asked: list[str] = []

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [7]

    def getJobInfo(self, job: int) -> Any:
        status, self._tasks = next(self._answers, ("SUCCEEDED", 0))
        self.asked.append(status)
        return SimpleNamespace(status=status, stageIds=[1])

    def getStageInfo(self, stage: int) -> Any:
        return SimpleNamespace(numActiveTasks=self._tasks)


def test_a_cancelled_job_is_over_when_spark_has_ended_it() -> None:
    """Its tasks may have ended before, as by Ctrl-C; and they may end after it."""
    tracker = Tracker(("RUNNING", 2), ("RUNNING", 0), ("FAILED", 1), ("FAILED", 0))
    cancelled: list[str] = []
    context: Any = SimpleNamespace(cancelJobGroup=cancelled.append, statusTracker=lambda: tracker)
    Jobs(context, "mine").cancel()
    assert ["mine"] == cancelled
    assert ["RUNNING", "RUNNING", "FAILED", "FAILED"] == tracker.asked


def test_an_error_of_spark_is_told_without_a_driver_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `pyspark-client` has no py4j."""
    from pyspark.errors import PySparkException

    for module in [name for name in sys.modules if name.partition(".")[0] == "py4j"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "py4j", None)
    with pytest.raises(RunnerError, match="Spark failed: the server is gone"):
        raise_original(PySparkException("the server is gone"))
    raise_original(ValueError("another error"))
