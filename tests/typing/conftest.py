"""One run of each type checker, over all programs and snippets."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys
from types import ModuleType
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def _module(name: str) -> ModuleType:
    """Return a module beside this one, whose folder has the name of Python's own `typing`."""
    spec = importlib.util.spec_from_file_location(f"typing_{name}", pathlib.Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checkers = _module("checkers")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A directory with a file for each block of the documentation, each example and each program.

    One more file has all snippets of the table: a run of a checker over all of them takes least.
    """
    directory = tmp_path_factory.mktemp("programs")
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = re.sub(r"\W", "_", str(document.relative_to(ROOT).with_suffix("")))
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)):
            if ">>>" not in block:
                (directory / f"{name}_{number}.py").write_text(block)
    for example in sorted((ROOT / "examples" / "beam").glob("*.py")):
        text = example.read_text().replace("apache_beam", "penstock")
        (directory / f"beam_{example.name}").write_text(text)
    for example in [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "examples" / "shop").glob("*.py"))]:
        if example.name != "__init__.py":
            (directory / f"example_{example.name}").write_text(example.read_text().replace("from .", "from example_"))
    for snippets in sorted((ROOT / "tests" / "against_beam" / "snippets").glob("*.py")):
        text = (
            snippets.read_text().replace("apache_beam", "penstock").replace("from refusals", "from snippets_refusals")
        )
        (directory / f"snippets_{snippets.name}").write_text(text)
    for program in sorted(pathlib.Path(__file__).with_name("programs").glob("*.py")):
        (directory / f"program_{program.name}").write_text(program.read_text())
    snippets = _module("snippets").SNIPPETS
    (directory / checkers.TABLE).write_text(checkers.program([expression for expression, _ in snippets]))
    return directory


@pytest.fixture(scope="session")
def found_by_mypy(programs: pathlib.Path) -> list[dict[str, Any]]:
    """What mypy reports, in all files."""
    return list(checkers.diagnostics_of_mypy(programs, sorted(path.name for path in programs.glob("*.py"))))


@pytest.fixture(scope="session")
def found_by_pyright(programs: pathlib.Path) -> list[dict[str, Any]]:
    """What Pyright reports, in all files."""
    return list(checkers.diagnostics_of_pyright(programs))
