"""The tables of the pages on performance are those of their result files."""

from __future__ import annotations

import importlib.util
import json
import pathlib
from types import ModuleType

import pytest
from harness.results import add, circumstances, comparisons
from harness.timing import Quantity, Ratio
from package.unpack_wheel import ROOT

DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "<!-- table: " in path.read_text()]


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """`docs/tables.py`."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_the_tables_are_those_of_the_files(page: pathlib.Path, tables: ModuleType) -> None:
    """`python docs/tables.py` writes them."""
    text = page.read_text()

    assert text == tables.with_tables(text)


def test_every_result_is_in_a_table() -> None:
    """Of a benchmark that the command has."""
    text = "".join(page.read_text() for page in PAGES)
    assert [] == [
        f"{file}: {name}"
        for file in ("performance.json", "nexmark.json")
        for name in json.loads((DOCS / file).read_text())["benchmarks"]
        if name not in text
    ]


def test_a_run_adds_its_results_to_a_file(tmp_path: pathlib.Path, tables: ModuleType) -> None:
    """In place of earlier ones of the same benchmark; what is over its limit is bold."""
    file = tmp_path / "results.json"
    add(file, "sums", circumstances(), comparisons([Ratio("by key", 9.0, 1.0, 2.0)]))
    add(file, "memory", circumstances(), comparisons([Quantity("peak", 400.0, 300.0, "MB")]))
    add(file, "sums", {**circumstances(), "date": "2026-11-26", "load": 0.5}, comparisons([Ratio("by key", 3, 2, 2)]))

    text = tables.with_tables("<!-- table: results.json sums; memory -->\n<!-- end of table -->\n", tmp_path)

    assert "| `sums` | by key | 3.00 s | 2.00 s | 1.50 | 2.00 | 2026-11-26, load 0.5 |" == text.splitlines()[3]
    assert "| `memory` | peak | **400 MB** |  |  | 300 MB |" in text
    assert "9.00" not in text


def test_a_file_of_something_else_is_refused(tmp_path: pathlib.Path) -> None:
    """And stays as it is."""
    file = tmp_path / "results.json"
    file.write_text("{}")

    with pytest.raises(ValueError, match="expected results of benchmarks, version 1"):
        add(file, "sums", circumstances(), [])
    assert "{}" == file.read_text()
