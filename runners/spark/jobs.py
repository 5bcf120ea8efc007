"""The Spark jobs of one run: described where people look, watched, and cancelled.

What made a Spark job fail: the error that an executor raised, as the one process would have raised it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...sdk.errors import PenstockError, RunnerError
from ...sdk.redaction import redacted_cause
from ..execution.error_transport import original

if TYPE_CHECKING:
    from pyspark import SparkContext


T = TypeVar("T")

# How long to wait for the tasks of a cancelled job: Spark asks a Python worker to stop, and
# kills it a few seconds later.
_STOPPING_SECONDS = 15.0

# Of a stage, in characters.
LONGEST_NAME = 200

_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


@contextmanager
def stage_named(context: SparkContext, name: str) -> Iterator[None]:
    """A stage that ends in what is made within this has a name in Spark's pages, and not that of a line of our code."""
    from pyspark.traceback_utils import SCCallSiteSync

    # Within one of these PySpark gives it no other one.
    outer, java = cast(Any, SCCallSiteSync), cast(Any, context)._jsc
    with outer(context):
        java.setCallSite(name[:LONGEST_NAME])
        yield


class Jobs:
    """The jobs of a group of its own.

    Args:
      group: the group's name, which nothing else may use.
    """

    def __init__(self, context: SparkContext, group: str) -> None:
        self._context = context
        self._group = group

    def run(self, description: str, job: Callable[[], T]) -> T:
        """Run what starts jobs; what the thread's jobs were called before is restored."""
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
        """Cancel what still runs, and wait until no task of it is left that could write something."""
        with suppress(Exception):
            self._context.cancelJobGroup(self._group)
            until = time.monotonic() + _STOPPING_SECONDS
            while any(stage.numActiveTasks for stage in self._stages()) and time.monotonic() < until:
                time.sleep(0.05)

    def activity(self) -> str:
        """How many tasks are done of the stages that run; "" if none does."""
        with suppress(Exception):
            running = [s for s in self._stages() if s.numActiveTasks]
            if running:
                return f"{sum(s.numCompletedTasks for s in running)} of {sum(s.numTasks for s in running)} tasks"
        return ""

    def _stages(self) -> list[Any]:
        tracker = self._context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self._group))
        ids = {stage for job in jobs if job is not None for stage in job.stageIds}
        return [stage for stage in map(tracker.getStageInfo, ids) if stage is not None]


def raise_original(error: Exception) -> None:
    """Raise what was raised in an executor, or say that Spark failed; return if it is neither."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, PenstockError):
        return
    text = str(error)
    found = original(text)
    if found is not None:
        raise found from found.__cause__
    if isinstance(error, (Py4JError, PySparkException)):
        raise RunnerError(f"Spark failed: {said(text)}") from redacted_cause(error)


def said(text: str) -> str:
    """What matters in a message of Spark's, which has stacks behind it, and may have a plan.

    >>> said("An error occurred while calling o1.\\n: java.lang.ArithmeticError: no\\nreally not\\n\\tat Some.class")
    'java.lang.ArithmeticError: no really not'
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if "Exception: " in line or "Error: " in line), 0)
    # An exception's message may have several lines, and what is to be done in the last.
    message = list(takewhile(lambda line: line.strip() and not line.startswith("\tat "), lines[first:]))
    return " ".join(line.strip() for line in message).lstrip(": ")[:1000]
