"""Checks of the statements in README.md and docs/."""

from __future__ import annotations

import pathlib
import re
import tomllib

import pytest
from package.unpack_wheel import ROOT
from support.programs.document_code import programs, shell

from penstock.sdk.runner import OURS, create_runner

README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, by rows, without the line below the head."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "---" not in line]
        for table in found
    ]


def test_the_first_pipeline_prints_what_is_shown_below_it(tmp_path: pathlib.Path) -> None:
    """Run as it is shown, too."""
    program, shown, _ = programs("README.md", __file__)
    (tmp_path / "clicks.py").write_text(program)
    command, _, output = shown.removeprefix("$ ").partition("\n")
    ran = shell(command, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert output == ran.stdout


def test_the_test_that_is_shown_passes() -> None:
    """With `beam` as above it."""
    _, _, code = programs("README.md", __file__)
    names: dict[str, object] = {"beam": __import__("penstock")}
    exec(code, names)

    test = names["test_words_are_counted"]
    assert callable(test)
    test()


def test_the_table_of_capabilities_is_what_the_runners_say_of_themselves() -> None:
    """Change the table with the runners."""
    (table,) = [table for table in tables(README) if table[0][0] == "" and table[0][1] in OURS]
    runners = [create_runner(name).capabilities() for name in OURS]
    capabilities = list(dict.fromkeys(capability for runner in runners for capability in runner))

    expected = [["", *OURS], *([c, *(runner.get(c, "no") for runner in runners)] for c in capabilities)]
    assert expected == table


def test_the_extras_are_those_of_the_package() -> None:
    """In the table, all of them and no others."""
    (table,) = [table for table in tables(README) if table[0][0] == "extra"]
    with open(ROOT / "pyproject.toml", "rb") as file:
        expected = set(tomllib.load(file)["project"]["optional-dependencies"])

    assert expected == {name for row in table[1:] for name in re.findall("`(.*?)`", row[0])}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_document_points_at_is_there(document: pathlib.Path) -> None:
    """Links to files, and the paths of modules and packages in backquotes."""
    text = document.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", text)

    assert [] == [link for link in links if not (document.parent / link).exists()]
    assert [] == [path for path in paths if not (ROOT / path).exists()]


def test_every_document_is_in_the_index() -> None:
    """Of its folder, or of docs/, under its title; a decision's has its number."""
    docs = ROOT / "docs"
    documents = {
        path.relative_to(docs).as_posix(): path.read_text().splitlines()[0].removeprefix("# ")
        for path in docs.rglob("*.md")
        if path != docs / "index.md"
    }

    listed = {
        (index.parent / link).relative_to(docs).as_posix(): title
        for index in docs.rglob("index.md")
        for title, link in re.findall(r"^- \[(.*)\]\((.*)\)$", index.read_text(), re.MULTILINE)
    }

    assert documents == listed
