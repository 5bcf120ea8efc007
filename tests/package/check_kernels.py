"""Check that only kernels run generated code: `python check_kernels.py`.

`exec`, `eval` and `compile` are called in `runners/execution/kernels` only, and where users' programs are read.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from unpack_wheel import ROOT, listed_packages

KERNELS = "runners/execution/kernels/"
NAMES = {"exec", "eval", "compile"}

# Files that read users' programs, each with the reason.
READING = {
    "sdk/typehints/callables.py": "annotations of users' functions may be text, which is evaluated in their scope",
}


def calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each use of a built-in function that runs or compiles source."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in NAMES:
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in NAMES:
                yield node.lineno, f"builtins.{name}"
            case ast.ImportFrom(module="builtins", names=aliases):
                yield from ((node.lineno, alias.name) for alias in aliases if alias.name in NAMES)


def main() -> None:
    found = []
    for package in listed_packages():
        for path in sorted(ROOT.joinpath(*package.split(".")[1:]).glob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(KERNELS) and name not in READING:
                found += [f"{name}:{line}: {text}" for line, text in calls(ast.parse(path.read_text("utf-8")))]
    if found:
        sys.exit("\n".join([*found, f"Generated code belongs to {KERNELS}: call a function, or add a kernel."]))


if __name__ == "__main__":
    main()
