"""The installed runners, with their capabilities, and with packages that are missing on this machine."""

from __future__ import annotations

from collections.abc import Iterator

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
    missing = runner.missing()
    yield "ready" if missing is None else f"not ready: {missing}"
    capabilities = runner.capabilities()
    width = max(map(len, capabilities), default=0)
    for capability, answer in capabilities.items():
        yield f"  {capability:{width}}  {answer}"
