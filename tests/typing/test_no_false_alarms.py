"""Type checkers over programs without a mistake: those here, of the documentation, the examples, and against Beam."""

from __future__ import annotations

import ast
import pathlib
import runpy
from typing import Any

import pytest

# Blocks of a document continue each other, and other packages may be missing, or have no types.
OF_BLOCKS = {"name-defined", "used-before-def", "has-type", "no-redef", "import-untyped", "var-annotated"}
OF_BLOCKS |= {"reportUndefinedVariable", "reportMissingModuleSource", "reportPossiblyUnbound"}
# Mistakes that are none of a pipeline: parts of their texts, by file.
KNOWN = {
    # An argument that is given twice if the caller gives it.
    "beam_batched_calls.py": ['"HTTPConnection" gets multiple values for keyword argument "timeout"'],
    # Of Dask's types.
    "example_dask_runner.py": ["Missing type arguments for generic type", "CoroutineType", "dashboard_address"],
    # Attributes of a view, which is a list for a function that takes it.
    "snippets_elements.py": ["pvalue", "default_value"],
    "snippets_exceptions.py": ["Result", '"sleep" does not return a value'],
    # Pyright takes the first signature of `pow` for a `partial` of it.
    "snippets_pardo.py": ['"Map[Literal[0], Literal[1]]"'],
    # What may be None, though it isn't here.
    "snippets_side_inputs.py": ['Object of type "None" is not subscriptable'],
    "snippets_splittable.py": ['"None" object is not iterable', '"None" is not iterable', "None"],
    # What only some windows have.
    "snippets_windows.py": ["BoundedWindow"],
    # Given to the exception.
    "snippets_own_io.py": ['attribute "exception_details"'],
}


def _refused_lines(file: pathlib.Path) -> set[int]:
    """Return the lines of what a program expects to be refused: its functions with `with refused(...)`."""
    found: set[int] = set()
    for function in ast.walk(ast.parse(file.read_text())):
        if isinstance(function, ast.FunctionDef):
            names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            if names & {"refused", "refusal"}:
                found.update(range(function.lineno, (function.end_lineno or function.lineno) + 1))
    return found


def _alarms(programs: pathlib.Path, found: list[tuple[str, int, str, str]]) -> list[str]:
    """Return the errors that no mistake explains, given as file, line, rule and text."""
    refused = {path.name: _refused_lines(path) for path in programs.glob("snippets_*.py")}
    return [
        f"{file}:{line}: {message}"
        for file, line, rule, message in found
        if file != "table.py"
        and rule not in OF_BLOCKS
        and not (rule in MISSING and _is_missing_elsewhere(file, message))
        and "Class cannot subclass" not in message
        and not any(known in message for known in KNOWN.get(file, ()))
        and line not in refused.get(file, ())
    ]


# An import of another package's, or of what `penstock.beam` adds.
MISSING = {"import-not-found", "reportMissingImports", "attr-defined", "reportAttributeAccessIssue"}


def _is_missing_elsewhere(file: str, message: str) -> bool:
    """Return whether an import is missing that is another package's, or that only programs of Beam have."""
    is_import = "module" in message.lower() or "import" in message.lower()
    return is_import and ('"penstock' not in message or file.startswith(("beam_", "snippets_")))


def test_mypy_finds_no_mistake(programs: pathlib.Path, found_by_mypy: list[dict[str, Any]]) -> None:
    """With `--strict`, but for definitions without types."""
    found = [each for each in found_by_mypy if each["severity"] == "error"]
    assert [] == _alarms(programs, [(each["file"], each["line"], each["code"], each["message"]) for each in found])


def test_pyright_finds_no_mistake(programs: pathlib.Path, found_by_pyright: list[dict[str, Any]]) -> None:
    """In its basic mode."""
    errors = [
        (pathlib.Path(each["file"]).name, each["range"]["start"]["line"] + 1, each.get("rule", ""), each["message"])
        for each in found_by_pyright
        if each["severity"] == "error"
    ]
    assert [] == _alarms(programs, errors)


@pytest.mark.parametrize("name", ["alerts", "word_count"])
def test_the_programs_run(name: str) -> None:
    """The checkers read what Python runs."""
    path = pathlib.Path(__file__).with_name("programs") / f"{name}.py"
    program = runpy.run_path(str(path))
    program["test"]()
