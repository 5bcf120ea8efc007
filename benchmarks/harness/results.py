"""Results as a file: `--results FILE` adds those of a run, and docs/tables.py makes the tables in docs/ of it.

A file is one object in JSON: `format`, `version`, and for each benchmark when and where it was measured, and what was
found.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from .timing import Result


def circumstances() -> dict[str, Any]:
    """Return what a result depends on: date, commit, interpreter, cores, and the load before the run."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }


def as_data(found: Sequence[Result]) -> list[dict[str, Any]]:
    """Return what a benchmark has found as data.

    >>> from .timing import Quantity
    >>> as_data([Quantity("peak memory", 250.0, 300.0, "MB")])
    [{'kind': 'quantity', 'name': 'peak memory', 'value': 250.0, 'limit': 300.0, 'unit': 'MB', 'digits': 0}]
    """
    return [
        {"kind": type(one).__name__.lower(), **attrs.asdict(one, filter=lambda _, value: value is not None)}
        for one in found
    ]


def add(file: Path, name: str, about: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    """Put the results of a benchmark into a file, in place of earlier ones.

    Raises `ValueError` for a file with something else.
    """
    data = json.loads(file.read_text()) if file.exists() else {"format": "penstock benchmarks", "version": 1}
    if (data.get("format"), data.get("version")) != ("penstock benchmarks", 1):
        raise ValueError(f"{file}: expected results of benchmarks, version 1, got {data!s:.60}")
    data.setdefault("benchmarks", {})[name] = {**about, "found": list(found)}
    # Whole or not at all: a run of hours may be interrupted.
    temporary = file.with_name(f".{file.name}")
    temporary.write_text(json.dumps(data, indent=1) + "\n")
    temporary.replace(file)
