"""The code in docs/ runs, and prints what is shown below it."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re

import pytest
from package.unpack_wheel import ROOT

# Code, and the indented lines that follow it.  A program without an end is fenced by ```py, and isn't run.
SHOWN = re.compile(r"```python\n(.*?)```\n\n((?: {4}[^\n]*\n)*)", re.DOTALL)
DOCUMENTS = [path for path in sorted((ROOT / "docs").rglob("*.md")) if SHOWN.search(path.read_text())]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_prints_what_is_shown_below_it(document: pathlib.Path) -> None:
    """A document's pieces of code run one after the other, as one program."""
    names: dict[str, object] = {}
    for code, output in SHOWN.findall(document.read_text()):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, str(document), "exec"), names)

        assert re.sub("^ {4}", "", output, flags=re.MULTILINE) == printed.getvalue()


def test_retractions_are_among_the_documents_with_code() -> None:
    """Or nothing would be run."""
    assert "retractions.md" in [path.name for path in DOCUMENTS]
