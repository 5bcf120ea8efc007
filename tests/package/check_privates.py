"""Check that no module of the package reads another one's private names: `python check_privates.py`.

A private name (`_x`) belongs to the module that defines it. `self._x` and `cls._x` are allowed everywhere, since a
subclass extends its base.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from unpack_wheel import ROOT, listed_packages

# Documented names of named tuples and of the standard library; and names of PyIceberg, which has no public ones for
# them.  Those of PySpark are in `runners/spark/private.py`.
ALLOWED = {
    *("_asdict", "_field_defaults", "_fields", "_make", "_replace"),
    *("_args_from_interpreter_flags", "_current_frames", "_exit", "_getframe", "_group_actions"),
    *("_dataframe_to_data_files", "_OverwriteFiles"),
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined_names(tree: ast.Module) -> set[str]:
    """Return the private names that a module assigns, declares, or defines as functions and classes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
    return {name for name in names if is_private(name)}


def foreign_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each use of a private name that the module doesn't define."""
    known = defined_names(tree) | ALLOWED
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if is_private(name) and name not in known:
                yield node.lineno, ast.unparse(node)
            case ast.ImportFrom(names=aliases):
                yield from ((node.lineno, f"import {alias.name}") for alias in aliases if is_private(alias.name))


def main() -> None:
    found = []
    for package in listed_packages():
        for path in sorted(ROOT.joinpath(*package.split(".")[1:]).glob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            found += [f"{name}:{line}: {text}" for line, text in foreign_names(ast.parse(path.read_text("utf-8")))]
    if found:
        sys.exit("\n".join([*found, "Private names of another module: join the two modules, or make the name public."]))


if __name__ == "__main__":
    main()
