"""What made a Spark job fail: the error that an executor raised, as the one process would have raised it."""

from __future__ import annotations

from ...sdk.errors import PenstockError, RunnerError
from ..execution.remote_error import original


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
        said = next((line for line in text.splitlines() if "Exception: " in line or "Error: " in line), text)
        raise RunnerError(f"Spark failed: {said.strip()[:500]}") from error
