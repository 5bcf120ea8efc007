"""Rewrite `beam/names.txt`: the names of Beam's modules, by module, and the private ones that a module defines.

    pip install --no-deps --target DIRECTORY apache-beam==2.77.0
    python tests/beam/collect_beam_names.py DIRECTORY/apache_beam [another version's ...]

Beam's sources are parsed, and not imported.  Names of several versions are merged.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import penstock
from penstock.beam.names import ANY

# Endings of modules that are tests or generated.
_NO_MODULES = ("_test", "_pb2", "_pb2_grpc", "_perf_test", "_main", "_pb2_urns", "_microbenchmark", "_test_common")
# Areas whose modules define everything themselves that is imported from them.
_LEAVES = ("io.gcp", "io.aws", "io.azure", "io.external", "ml", "dataframe", "yaml", "runners", "transforms.xlang")


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the public modules of Beam with their files."""
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        path = ".".join(parts)
        if not (path.endswith(_NO_MODULES) or "._" in f".{path}" or _is_below(path, ANY)):
            yield path, file


def names(path: str, file: Path) -> Iterator[tuple[str, str]]:
    """Yield the names at the top level of a module, each with the module of Beam that it is imported from, or ""."""
    pending: list[ast.stmt] = list(ast.parse(file.read_text()).body)
    package = path if file.name == "__init__.py" else path.rpartition(".")[0]
    while pending:
        node = pending.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, ""
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            yield from ((each.id, "") for each in stored if isinstance(each.ctx, ast.Store))
        elif isinstance(node, ast.ImportFrom) and (origin := _origin(node, package)) is not None:
            yield from ((alias.name, origin or ".") for alias in node.names if alias.asname in (None, alias.name))
        if isinstance(node, (ast.If, ast.Try)):
            # What replaces a package that isn't installed is no name of Beam's.
            pending.extend([*node.body, *node.orelse, *getattr(node, "finalbody", [])])


def _origin(node: ast.ImportFrom, package: str) -> str | None:
    """Return Beam's module that is imported from, without `apache_beam`."""
    module = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        return ".".join([*above, module]).strip(".")
    root, _, rest = module.partition(".")
    return rest if root == "apache_beam" else None


def _is_below(path: str, areas: tuple[str, ...]) -> bool:
    return any(path == area or path.startswith(f"{area}.") for area in areas)


def main(roots: list[str]) -> None:
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    every = [(path, file) for root in roots for path, file in modules(Path(root))]
    paths = {path for path, _ in every}
    for path, file in every:
        found[path][""] |= set()
        for name, origin in names(path, file):
            is_leaf = file.name != "__init__.py" and any(
                _is_below(path, (area,)) and not _is_below(origin, (area,)) for area in _LEAVES
            )
            is_foreign = origin and (is_leaf or name.startswith("_"))
            if not (name.startswith("__") or name == "_" or is_foreign) and f"{path}.{name}".strip(".") not in paths:
                found[path]["" if _is_below(origin, ANY) else origin].add(name)
    lines = []
    for path, by_origin in sorted(found.items()):
        own = by_origin.pop("")
        parts = [*sorted(own), *(n for o, ns in sorted(by_origin.items()) for n in (f"<{o}", *sorted(ns - own)))]
        text = textwrap.fill(f"{path or '.'}: {' '.join(parts)}".rstrip(), 120, break_long_words=False)
        lines.append(text.replace("\n", "\n "))
    Path(penstock.__file__).with_name("beam").joinpath("names.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
