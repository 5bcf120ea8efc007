"""Type checkers over programs without a mistake: those of the documentation, and the examples."""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]

_spec = importlib.util.spec_from_file_location("typing_checkers", HERE / "checkers.py")
assert _spec is not None
assert _spec.loader is not None
checkers = sys.modules[_spec.name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(checkers)

# Blocks of a document continue each other, and other packages may be missing, or have no types.
OF_BLOCKS = {"name-defined", "used-before-def", "has-type", "no-redef", "import-untyped", "var-annotated"}
OF_BLOCKS |= {"reportUndefinedVariable", "reportMissingModuleSource", "reportPossiblyUnbound"}
# Its own: an argument that is given twice if the caller gives it.
KNOWN = {"beam_batched_calls.py": '"HTTPConnection" gets multiple values for keyword argument "timeout"'}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A directory with a file for each block of the documentation, and the examples for Beam, of penstock."""
    directory = tmp_path_factory.mktemp("programs")
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = re.sub(r"\W", "_", str(document.relative_to(ROOT).with_suffix("")))
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL)):
            if ">>>" not in block:
                (directory / f"{name}_{number}.py").write_text(block)
    for example in sorted((ROOT / "examples" / "beam").glob("*.py")):
        text = example.read_text().replace("apache_beam", "penstock")
        (directory / f"beam_{example.name}").write_text(text)
    return directory


def _is_missing_elsewhere(file: str, message: str) -> bool:
    """Return whether a module is missing that is another package's, or one that only programs of Beam import."""
    return '"penstock' not in message or file.startswith("beam_")


def test_mypy_finds_no_mistake(programs: pathlib.Path) -> None:
    """With `--strict`, but for definitions without types."""
    found = checkers.diagnostics_of_mypy(programs, sorted(path.name for path in programs.glob("*.py")))
    assert [] == [
        f"{each['file']}:{each['line']}: {each['message']}"
        for each in found
        if each["severity"] == "error"
        and each["code"] not in OF_BLOCKS
        and not (each["code"] == "import-not-found" and _is_missing_elsewhere(each["file"], each["message"]))
        and "Class cannot subclass" not in each["message"]
        and each["message"] != KNOWN.get(each["file"])
    ]


def test_pyright_finds_no_mistake(programs: pathlib.Path) -> None:
    """In its basic mode."""
    found = checkers.diagnostics_of_pyright(programs)
    assert [] == [
        f"{pathlib.Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in found
        if each["severity"] == "error"
        and each.get("rule") not in OF_BLOCKS
        and not (
            each.get("rule") == "reportMissingImports"
            and _is_missing_elsewhere(pathlib.Path(each["file"]).name, each["message"])
        )
    ]
