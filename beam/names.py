"""Beam's modules with their names, as listed in `names.txt`.

A block of that file is one module: its path, a colon, its own names, and the names that it imports from other modules
of Beam, after `<` and that module's path; `*` means all of its public names.
`tests/beam/collect_beam_names.py` writes it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

# Parts of Beam whose modules aren't listed: below these paths every module and every name is taken to exist.
ANY: Final[tuple[str, ...]] = (
    "examples",
    "internal",
    "io.gcp.internal",
    "io.gcp.tests",
    "metrics.monitoring_infos",
    "portability",
    "runners.dask",
    "runners.dataflow.internal",
    "runners.interactive",
    "runners.internal",
    "runners.job",
    "runners.portability",
    "runners.worker",
    "testing.analyzers",
    "testing.benchmarks",
    "testing.load_tests",
    "tools",
    "typehints.opcodes",
    "yaml",
)


@cache
def names_of_beam() -> dict[str, dict[str, str]]:
    """Return the names by module path, each with the path of the module that defines it.

    >>> names_of_beam()["io"]["ReadFromPubSub"]
    'io.gcp.pubsub'
    """
    listed: dict[str, dict[str, str]] = {}
    stars: list[tuple[str, str]] = []
    text = Path(__file__).with_name("names.txt").read_text(encoding="utf-8")
    for block in text.replace("\n ", " ").splitlines():
        path, _, rest = block.partition(":")
        path = path.strip(".")
        own = listed.setdefault(path, {})
        origin = path
        for name in rest.split():
            if name[0] == "<":
                origin = name[1:].strip(".")
            elif name == "*":
                stars.append((path, origin))
            else:
                own[name] = origin
    # A star may import what another one has brought.
    for _ in range(3):
        for path, origin in stars:
            for name in listed.get(origin, ()):
                if not name.startswith("_"):
                    listed[path].setdefault(name, origin)
    return listed


def has_module(path: str) -> bool:
    """Return whether Beam has a module of this path."""
    return path in names_of_beam() or is_unlisted(path)


def is_unlisted(path: str) -> bool:
    """Return whether the path is in a part of Beam that isn't listed."""
    return any(path == area or path.startswith(f"{area}.") for area in ANY)


def defining_module(path: str, name: str) -> str | None:
    """Return the path of Beam's module that defines a name of the module `path`; None if it has no such name.

    >>> defining_module("io", "ReadFromPubSub"), defining_module("io", "ReadFromNothing")
    ('io.gcp.pubsub', None)
    """
    listed = names_of_beam()
    seen = {path}
    origin = listed.get(path, {}).get(name)
    while origin is not None and origin not in seen and name in listed.get(origin, ()):
        seen.add(origin)
        origin = listed[origin][name]
    return path if origin is None and is_unlisted(path) and not name.startswith("_") else origin
