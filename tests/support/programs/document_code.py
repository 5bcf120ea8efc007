"""The code in README.md and docs/: fenced blocks, and the test that runs each of them.

A block of `python` in docs/ is run by tests/package/test_document_code.py. Any other block of code has a comment in the
line above it: `<!-- run by tests/io/kafka/test_document.py -->`, or `<!-- not run: the reason -->`.
"""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping

import attrs
from click.testing import CliRunner
from package.unpack_wheel import ROOT

from penstock.__main__ import main

DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

# Of code; all other languages are data, which a page shows.
CODE = {"python", "py", "sh", "console"}
DATA = {"text", "yaml", "sql", "dockerfile"}

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?"
    r"^```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```\n(?P<output>\n(?:    [^\n]*\n)*)?",
    re.DOTALL | re.MULTILINE,
)


@attrs.frozen
class Block:
    """A fenced block.

    Attributes:
      document: its path from the root.
      line: that of the fence.
      output: the indented lines that follow it.
      mark: the comment above it; empty if there is none.
    """

    document: str
    line: int
    language: str
    code: str
    output: str
    mark: str

    @property
    def run_by(self) -> str:
        """The path of the test that runs it; empty if none does."""
        if not self.mark and self.language == "python" and self.document.startswith("docs/"):
            return "tests/package/test_document_code.py"
        return self.mark.removeprefix("run by ") if self.mark.startswith("run by ") else ""

    @property
    def why_not(self) -> str:
        """Why it isn't run; empty if it is."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else ""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks_of(document: pathlib.Path) -> list[Block]:
    """Return the blocks of a document, but for directives of the site."""
    text = document.read_text()
    found = []
    for block in _BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("language")) + 1
        output = re.sub("^ {4}", "", (block["output"] or "").removeprefix("\n"), flags=re.MULTILINE)
        language, code, mark = block["language"], block["code"], block["mark"] or ""
        found.append(Block(document.relative_to(ROOT).as_posix(), line, language, code, output, mark))
    return [block for block in found if not text.splitlines()[block.line - 1].startswith("```{")]


def programs(document: str, test: str) -> list[str]:
    """Return the code that a document says is run by a test, given its `__file__`."""
    path = pathlib.Path(test).relative_to(ROOT).as_posix()
    return [block.code for block in blocks_of(ROOT / document) if block.run_by == path]


def commands(code: str) -> list[str]:
    """Return the commands of a block, one a line, without comments.

    >>> commands("penstock state DIR  # a comment\\npenstock ui \\\\\\n    --port=1\\n")
    ['penstock state DIR', 'penstock ui --port=1']
    """
    joined = re.sub(r"\\\n *", "", code)
    return [re.sub(r" +# .*", "", line) for line in joined.splitlines() if line]


def shell(
    code: str, directory: pathlib.Path, replaced: Mapping[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run commands as they are written, by the interpreter of the tests, with other paths and addresses."""
    return subprocess.run(
        ["bash", "-ec", _with(code, replaced)],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def penstock(code: str, replaced: Mapping[str, object] | None = None) -> str:
    """Run commands of penstock in this process, and return what they print; a failure is an error."""
    printed = []
    for command in commands(_with(code, replaced)):
        program, *arguments = shlex.split(command)
        assert program == "penstock"
        ran = CliRunner().invoke(main, arguments)
        assert ran.exit_code == 0, ran.output
        printed.append(ran.output)
    return "".join(printed)


def started(
    command: str, directory: pathlib.Path, replaced: Mapping[str, object] | None = None
) -> subprocess.Popen[str]:
    """Start a command that runs until it is stopped; it prints into the files `out` and `err` of the directory."""
    with open(directory / "out", "a") as out, open(directory / "err", "a") as err:
        return subprocess.Popen(
            ["bash", "-ec", f"exec {_with(command, replaced)}"],
            cwd=directory,
            env=environment(),
            stdout=out,
            stderr=err,
            text=True,
        )


def environment() -> dict[str, str]:
    """The environment in which `penstock` and `python` are those of the tests."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}


def _with(code: str, replaced: Mapping[str, object] | None) -> str:
    for old, new in (replaced or {}).items():
        assert old in code, f"{old} isn't in {code}"
        code = code.replace(old, str(new))
    return code
