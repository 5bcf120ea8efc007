"""What made a Spark job fail: the error that an executor raised, as the one process would have raised it."""

from __future__ import annotations

from itertools import takewhile

from ...sdk.errors import PenstockError, RunnerError
from ...sdk.redaction import redacted_cause
from ..execution.error_transport import original


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
