"""The Spark jobs of one run: their names in Spark's UI, their progress, cancellation and errors."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from ...sdk.errors import PenstockError, RunnerError
from ...sdk.redaction import redacted_cause
from ..execution.error_transport import original
from .executor_functions import environment_error

if TYPE_CHECKING:
    from pyspark import SparkContext


T = TypeVar("T")

# The longest wait, in seconds, for the tasks of a cancelled job: Spark asks a Python worker to stop, and kills it a few
# seconds later.
STOPPING_SECONDS = 15.0

_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


class Jobs:
    """A job group.

    Args:
      group: the unique name of the group.
    """

    def __init__(self, context: SparkContext, group: str) -> None:
        self._context = context
        self._group = group

    def run(self, description: str, job: Callable[[], T]) -> T:
        """Call a function that starts jobs, with this group and a description."""
        context: Any = self._context
        before = {name: context.getLocalProperty(name) for name in (_GROUP, _DESCRIPTION)}
        context.setLocalProperty(_GROUP, self._group)
        context.setLocalProperty(_DESCRIPTION, description)
        try:
            return job()
        finally:
            with suppress(Exception):
                for name, value in before.items():
                    context.setLocalProperty(name, value)

    def cancel(self) -> None:
        """Cancel the running jobs, and wait until none of their tasks can write any more."""
        with suppress(Exception):
            self._context.cancelJobGroup(self._group)
            until = time.monotonic() + STOPPING_SECONDS
            while self._is_active() and time.monotonic() < until:
                time.sleep(0.05)

    def activity(self) -> str:
        """Return the number of completed tasks of the running stages as text; "" if none runs."""
        with suppress(Exception):
            running = [s for s in self._stages(self._jobs()) if s.numActiveTasks]
            if running:
                return f"{sum(s.numCompletedTasks for s in running)} of {sum(s.numTasks for s in running)} tasks"
        return ""

    def _is_active(self) -> bool:
        """Return True if a job runs, or a task of one that doesn't."""
        # The tasks may have ended by themselves, and Spark hasn't ended their job yet.
        jobs = self._jobs()
        return any(job.status == "RUNNING" for job in jobs) or any(each.numActiveTasks for each in self._stages(jobs))

    def _jobs(self) -> list[Any]:
        tracker = self._context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self._group))
        return [job for job in jobs if job is not None]

    def _stages(self, jobs: list[Any]) -> list[Any]:
        ids = {stage for job in jobs for stage in job.stageIds}
        return [stage for stage in map(self._context.statusTracker().getStageInfo, ids) if stage is not None]


def raise_original(error: Exception) -> None:
    """Raise the error that an executor raised, or `RunnerError` for an error of Spark; return for any other error."""
    from pyspark.errors import PySparkException

    # Without py4j, as with the package `pyspark-client`, none of its errors can have come.
    py4j = sys.modules.get("py4j.protocol")
    of_spark = (PySparkException,) if py4j is None else (PySparkException, py4j.Py4JError)
    if isinstance(error, PenstockError):
        return
    text = str(error)
    found = original(text)
    if found is not None:
        # Of what a task unpickles; an error of user code has its transform.
        lacking = environment_error(str(found)) if str(found).startswith(ModuleNotFoundError.__name__) else None
        raise lacking or found from found.__cause__
    differs = environment_error(text)
    if differs is not None:
        raise differs from redacted_cause(error)
    if isinstance(error, of_spark):
        raise RunnerError(f"Spark failed: {said(text)}") from redacted_cause(error)


def is_of_several_attempts(error: Exception) -> bool:
    """Return True if Spark has failed a job since a stage that it repeated had another output.

    Spark compares the outputs of a DataFrame's stages, and repeats those behind such a stage, except the last.

    >>> is_of_several_attempts(Exception("A shuffle map stage with indeterminate output was failed and retried."))
    True
    """
    return "stage with indeterminate output" in str(error)


def said(text: str) -> str:
    """Return the message of the first exception in a text of Spark's, without query plans and stack traces.

    >>> said("An error occurred while calling o1.\\n: java.lang.ArithmeticError: no\\nreally not\\n\\tat Some.class")
    'java.lang.ArithmeticError: no really not'
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if "Exception: " in line or "Error: " in line), 0)
    # The message may have several lines, with advice in the last.
    message = list(takewhile(lambda line: line.strip() and not line.startswith("\tat "), lines[first:]))
    return " ".join(line.strip() for line in message).lstrip(": ")[:1000]
