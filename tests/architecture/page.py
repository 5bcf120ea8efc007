"""`python tests/architecture/page.py` writes the drawing, and the list of modules in docs/architecture.md."""

from __future__ import annotations

import ast
import pathlib
import sys
from itertools import groupby

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from architecture.drawing import DRAWING, svg
from architecture.imports import ROOT, modules

PAGE = ROOT / "docs" / "architecture.md"

_BEGIN, _END = "<!-- modules: python tests/architecture/page.py -->\n", "<!-- end of modules -->\n"


def summary(source: str) -> str:
    """Return the first sentence of a module's docstring, as one line."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(docstring.split("\n\n")[0].split()).rstrip(".")


def module_list() -> str:
    """Return all modules of the runners by package, with a clause each, as Markdown."""
    paths = sorted(
        path.relative_to(ROOT)
        for name, path in modules().items()
        if name.startswith("runners.") and path.name != "__init__.py"
    )
    lines = []
    for package, own in groupby(sorted(paths, key=lambda path: (path.parent, path)), key=lambda path: path.parent):
        lines += [f"### {package.as_posix()}/", ""]
        lines += [f"- `{path.name}`: {summary((ROOT / path).read_text())}" for path in own]
        lines.append("")
    return "\n".join(lines)


def page(before: str) -> str:
    """Return the page with the list of modules as it is now."""
    head, _, rest = before.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n{module_list()}\n{_END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    DRAWING.write_text(svg())
