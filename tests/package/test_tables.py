"""The tables of measured figures in docs/ are those of their result files."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
from types import ModuleType

import pytest
from harness.results import add, as_data, circumstances
from harness.timing import Figure, Figures, Quantity, Ratio
from package.unpack_wheel import ROOT

DOCS = ROOT / "docs"
FILES = ("performance.json", "nexmark.json", "experiments.json", "spark_matrix.json")
PAGES = {page: page.read_text() for page in sorted(DOCS.rglob("*.md"))}
PAGES[ROOT / "README.md"] = (ROOT / "README.md").read_text()
MADE = [page for page, text in PAGES.items() if "<!-- end of table -->" in text]

# A decision has the figures that were known when it was made, and the first hour is written down as it went.
AS_IT_WAS = [DOCS / "decisions", DOCS / "tutorials" / "first_hour.md"]
BLOCK = re.compile(r"<!-- (?:table|figures): (?P<file>\S+) (?P<names>.+?) -->.*?<!-- end of table -->", re.DOTALL)
FIGURE = re.compile(r"^\**[−-]?[\d.,]+ ?(?:ns|µs|ms|s|kB|KB|MB|GB|%|times)\**$")


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """`docs/tables.py`."""
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", MADE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_tables_are_those_of_the_files(page: pathlib.Path, tables: ModuleType) -> None:
    """`python docs/tables.py` writes them."""
    assert PAGES[page] == tables.with_tables(PAGES[page], page.parent)


def test_every_result_is_in_a_table() -> None:
    """And each table has a file."""
    shown = {
        ((page.parent / found["file"]).resolve(), name)
        for page, text in PAGES.items()
        for found in BLOCK.finditer(text)
        for name in found["names"].split("; ")
    }
    found = {(DOCS / file, name) for file in FILES for name in json.loads((DOCS / file).read_text())["benchmarks"]}

    assert found == shown


def test_no_table_of_measured_figures_is_written_by_hand() -> None:
    """A cell that is a time, a size or a share is one that `python docs/tables.py` has made."""
    found = [
        f"{page.relative_to(DOCS)}: {line}"
        for page, text in PAGES.items()
        if not any(page.is_relative_to(kept) for kept in AS_IT_WAS)
        for line in BLOCK.sub("", text).splitlines()
        if line.startswith("|") and any(FIGURE.match(cell.strip()) for cell in line.strip("|").split("|"))
    ]

    assert [] == found


def test_a_run_adds_its_results_to_a_file(tmp_path: pathlib.Path, tables: ModuleType) -> None:
    """In place of earlier ones of the same benchmark; what is over its limit is bold."""
    file = tmp_path / "results.json"
    add(file, "sums", circumstances(), as_data([Ratio("by key", 9.0, 1.0, 2.0)]))
    add(file, "memory", circumstances(), as_data([Quantity("peak", 400.0, 300.0, "MB")]))
    add(file, "sums", {**circumstances(), "date": "2026-11-26", "load": 0.5}, as_data([Ratio("by key", 3, 2, 2)]))

    text = tables.with_tables("<!-- table: results.json sums; memory -->\n<!-- end of table -->\n", tmp_path)

    assert "| `sums` | by key | 3.00 s | 2.00 s | 1.50 | 2.00 | 2026-11-26, load 0.5 |" == text.splitlines()[3]
    assert "| `memory` | peak | **400 MB** |  |  | 300 MB |" in text
    assert "9.00" not in text


def test_figures_are_rows_of_a_table_of_their_own(tmp_path: pathlib.Path, tables: ModuleType) -> None:
    """With all columns that any of them has; comparisons of the same benchmark are in the other table."""
    file, about = tmp_path / "results.json", {**circumstances(), "date": "2026-11-26", "load": 0.5}
    rows = [
        Figures("1", {"memory": Figure(1400.0, "MB", 1, limit=1000), "files": Figure(31)}, "minute"),
        Figures("2", {"memory": Figure(9.04, "MB", 1, limit=1000), "records": Figure(61_042_700)}, "minute"),
    ]
    add(file, "soak", about, as_data([Ratio("by key", 3, 2, 2), *rows]))

    text = tables.with_tables("<!-- figures: results.json soak -->\n<!-- end of table -->\n", tmp_path)

    assert [
        "| minute | memory | files | records |",
        "| --- | --- | --- | --- |",
        "| 1 | **1,400.0 MB** | 31 | |",
        "| 2 | 9.0 MB | | 61,042,700 |",
        "",
        "`soak`: 2026-11-26, load 0.5.",
    ] == text.splitlines()[1:-1]
    assert not rows[0].passes
    assert rows[1].passes
    compared = tables.with_tables("<!-- table: results.json soak -->\n<!-- end of table -->\n", tmp_path)
    assert 1 + 3 + 1 == len(compared.splitlines())


def test_a_result_has_the_circumstances_that_it_was_measured_in(tables: ModuleType) -> None:
    """Where they aren't those of its benchmark; and of some only the ratio is known."""
    own = {"kind": "ratio", "name": "panes", "ratio": 0.59, "limit": 0.8, "date": "2026-11-23", "note": "under load"}

    lines = tables.comparison_table({"sums": {"date": "2026-11-21", "found": [own]}})

    assert "| `sums` | panes |  |  | 0.59 | 0.800 | 2026-11-23, under load |" == lines[-1]


def test_a_file_of_something_else_is_refused(tmp_path: pathlib.Path) -> None:
    """And stays as it is."""
    file = tmp_path / "results.json"
    file.write_text("{}")

    with pytest.raises(ValueError, match="expected results of benchmarks, version 1"):
        add(file, "sums", circumstances(), [])
    assert "{}" == file.read_text()
