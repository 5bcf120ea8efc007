"""The layout of the package: what docs/architecture.md says of it, and the limits that it keeps."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from architecture.drawing import DRAWING, svg
from architecture.imports import ROOT, imports, modules
from architecture.page import PAGE, page

# The most modules that an element passes on its way from a source to a sink.
LONGEST_WALKS = {"local": 15, "streaming": 33, "spark-batch": 22, "spark-microbatch": 28}

# Modules below this length have more than one importer.
SHORT = 60

# Short modules with one importer that are documented interfaces.
INTERFACES = {"runners.spark.runner"}


@pytest.mark.parametrize("runner", LONGEST_WALKS)
def test_an_element_passes_few_modules(runner: str) -> None:
    """They run in a process of their own, which has set up nothing before."""
    script = ROOT / "tests" / "architecture" / "walk.py"
    ran = subprocess.run([sys.executable, script, runner, "--json"], capture_output=True, text=True, check=True)
    walk = json.loads(ran.stdout)

    assert "runners/execution/stages/executor.py" in walk
    assert "runners/execution/sinks/writer.py" in walk
    assert len(walk) <= LONGEST_WALKS[runner], sorted(walk)


def test_the_drawing_shows_todays_imports() -> None:
    """`python tests/architecture/page.py` draws it anew."""
    assert svg() == DRAWING.read_text()


def test_the_list_of_modules_is_todays() -> None:
    """`python tests/architecture/page.py` writes it anew."""
    before = PAGE.read_text()
    assert page(before) == before


def test_packages_have_at_most_twenty_modules_and_those_of_the_runners_fifteen() -> None:
    """The listing of a folder is its table of contents; programs are no package."""
    sizes = Counter(
        name.rpartition(".")[0]
        for name, path in modules().items()
        if not name.startswith("examples.") and path.name != "__init__.py"
    )
    most = {package: 15 if package.startswith("runners.") else 20 for package in sizes}
    assert {} == {package: size for package, size in sizes.items() if size > most[package]}


def test_short_modules_have_several_importers() -> None:
    """A short module with one importer is a part of that."""
    importers = defaultdict(set)
    for name, imported in imports().items():
        for other in imported:
            importers[other].add(name)
    short = {
        name
        for name, path in modules().items()
        if name.startswith("runners.") and path.name != "__init__.py" and len(path.read_text().splitlines()) < SHORT
    }
    assert INTERFACES == {name for name in short if len(importers[name]) < 2}


def test_files_that_the_page_names_exist() -> None:
    """The walks name a file at each hop."""
    named = set(re.findall(r"`([a-z_/]+/[a-z_]+\.py)`", PAGE.read_text()))

    assert len(named) > 30
    assert set() == {path for path in named if not (ROOT / path).exists()}


def test_tables_of_modules_are_complete() -> None:
    """The documentation of a package may list its modules; that of the whole package lists a part."""
    wrong = {}
    for name, path in modules().items():
        if path.name != "__init__.py":
            continue
        documented = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        lines = (re.match(r"((?:, )?[a-z_0-9]+(\.py|/))+(?= |$)", line) for line in documented.splitlines())
        named = {each for line in lines if line is not None for each in line[0].split(", ")}
        present = {each.name for each in path.parent.glob("*.py") if not each.name.startswith("__")}
        present |= {f"{each.name}/" for each in path.parent.iterdir() if (each / "__init__.py").exists()}
        unknown = {each for each in named if not (path.parent / each).exists()}
        missing = present - named if named and path.parent != ROOT else set()
        if unknown or missing:
            wrong[name] = unknown, missing
    assert {} == wrong
