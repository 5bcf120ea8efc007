"""Lines of code by package: `python tests/architecture/size.py [PACKAGE]`, with all modules of PACKAGE if it is given.

A line of code is neither blank, nor a comment, nor part of a docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "package"))

# Tokens that are no code.
_NONE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(source: str) -> int:
    """Return the number of lines of code of a module.

    >>> code_lines("# A comment.\\n\\nx = [\\n    1,\\n]\\n")
    3
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NONE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as docstring, *_]:
                    lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def main(arguments: list[str]) -> None:
    from unpack_wheel import listed_packages

    sizes: Counter[str] = Counter()
    for package in listed_packages():
        folder = "/".join(package.split(".")[1:])
        for path in (ROOT / folder).glob("*.py"):
            sizes[f"{folder}/{path.name}".lstrip("/")] = code_lines(path.read_text("utf-8"))
    if arguments:
        shown = {name: size for name, size in sizes.items() if name.startswith(arguments[0].rstrip("/") + "/")}
    else:
        shown = Counter()
        for name, size in sizes.items():
            parts = name.split("/")[:-1]
            for depth in range(len(parts) + 1):
                shown["/".join(parts[:depth]) + "/"] += size
    for name, size in sorted(shown.items()):
        print(f"{size:7,}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
