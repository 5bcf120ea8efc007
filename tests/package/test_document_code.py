"""The code in README.md and docs/ runs, and prints what is shown below it."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import shlex
import tomllib

import pytest
from package.unpack_wheel import ROOT
from support.programs.document_code import CODE, DATA, DOCUMENTS, Block, blocks_of, commands

from penstock.options.pipeline_options import PipelineOptions

BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]
HERE = pathlib.Path(__file__).relative_to(ROOT).as_posix()
RUN_HERE = sorted({block.document for block in BLOCKS if block.run_by == HERE})


@pytest.mark.parametrize("document", RUN_HERE)
def test_code_prints_what_is_shown_below_it(
    document: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document's pieces of code run one after the other, as one program."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        if (block.document, block.run_by) == (document, HERE):
            # Tracebacks have the line of the document.
            code = "\n" * block.line + block.code
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, str(ROOT / document), "exec"), names)

            assert block.output == printed.getvalue()


def test_every_block_of_code_is_run_or_says_why_not() -> None:
    """And is of a known language."""
    unmarked = [block for block in BLOCKS if is_code(block) and not (block.run_by or block.why_not)]
    assert [] == list(map(str, unmarked))
    assert [] == [f"{block} ({block.language})" for block in BLOCKS if block.language not in CODE | DATA]


def is_code(block: Block) -> bool:
    """Whether a block has to be run: installations are tried by `make release`."""
    return block.language in CODE and not all("pip install " in line for line in commands(block.code))


def test_the_test_that_a_block_names_reads_it() -> None:
    """By the path of its document."""
    elsewhere = [block for block in BLOCKS if block.run_by not in ("", HERE)]
    wrong = [
        f"{block}: {block.run_by}"
        for block in elsewhere
        if not (ROOT / block.run_by).is_file() or f'"{block.document}"' not in (ROOT / block.run_by).read_text()
    ]
    assert [] == wrong
    assert elsewhere


def test_what_is_not_run_can_be_parsed() -> None:
    """So it has no mistake of syntax."""
    for block in BLOCKS:
        if block.why_not and block.language in ("py", "python"):
            compile(block.code, str(block), "exec")


COMMANDS = [(str(block), command) for block in BLOCKS if block.language == "sh" for command in commands(block.code)]


def test_the_flags_of_pipelines_in_commands_exist() -> None:
    """Also where the command can't be run here; those of the programs are their own."""
    for where, command in COMMANDS:
        words = shlex.split(command)
        for index, word in enumerate(words):
            if re.fullmatch(r"(clicks|stream|numbers)\.py", word):
                assert PipelineOptions(words[index + 1 :]).get_all_options(), where


def test_the_extras_that_are_installed_exist() -> None:
    """In every `pip install`."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        known = set(tomllib.load(file)["project"]["optional-dependencies"])
    named = {
        extra
        for _, command in COMMANDS
        for extras in re.findall(r"pip install '(?:penstock|\.)\[(.*?)\]'", command)
        for extra in extras.split(",")
    }
    assert named
    assert set() == named - known
