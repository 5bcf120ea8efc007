"""Imports between the modules of the package, those under `TYPE_CHECKING` included."""

from __future__ import annotations

import ast
import pathlib
from functools import cache

ROOT = pathlib.Path(__file__).parents[2]

# What is no part of the package.
_OUTSIDE = frozenset({"tests", "benchmarks", "deploy", "docs", "build"})


@cache
def modules() -> dict[str, pathlib.Path]:
    """Return the modules of the package and their files: `sdk.graph`, and a package by its own name."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in _OUTSIDE and path.name[0] != "."]
    found = {}
    for path in sorted([*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix("__init__").removesuffix(".")] = path
    return found


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports."""
    known = modules()
    return {name: _imports_of(name, path, known) for name, path in known.items()}


def _imports_of(name: str, path: pathlib.Path, known: dict[str, pathlib.Path]) -> set[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ())]
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in known else ".".join(base))
    return found - {name, ""}
