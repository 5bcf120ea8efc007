"""Type checkers over programs without a mistake: those of the documentation, the examples, and those against Beam."""

from __future__ import annotations

import ast
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
# Mistakes that are none of a pipeline: parts of their texts, by file.
KNOWN = {
    # An argument that is given twice if the caller gives it.
    "beam_batched_calls.py": ['"HTTPConnection" gets multiple values for keyword argument "timeout"'],
    # Of Dask's types.
    "example_dask_runner.py": ["Missing type arguments for generic type", "CoroutineType", "dashboard_address"],
    # Attributes of a view, which is a list for a function that takes it.
    "snippets_elements.py": ["pvalue", "default_value"],
    "snippets_exceptions.py": ["Result", '"sleep" does not return a value'],
    # Pyright takes the first signature of `pow`.
    "snippets_pardo.py": ['"Map[Literal[0], Literal[1]]"'],
    # What may be None, though it isn't here.
    "snippets_side_inputs.py": ['Object of type "None" is not subscriptable'],
    "snippets_splittable.py": ['"None" object is not iterable', '"None" is not iterable', "None"],
    # What only some windows have.
    "snippets_windows.py": ["BoundedWindow"],
    # Given to the exception.
    "snippets_own_io.py": ['attribute "exception_details"'],
}


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
    for example in [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "examples" / "shop").glob("*.py"))]:
        if example.name != "__init__.py":
            (directory / f"example_{example.name}").write_text(example.read_text().replace("from .", "from example_"))
    for snippets in sorted((ROOT / "tests" / "against_beam" / "snippets").glob("*.py")):
        text = (
            snippets.read_text().replace("apache_beam", "penstock").replace("from refusals", "from snippets_refusals")
        )
        (directory / f"snippets_{snippets.name}").write_text(text)
    return directory


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
        if rule not in OF_BLOCKS
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


def test_mypy_finds_no_mistake(programs: pathlib.Path) -> None:
    """With `--strict`, but for definitions without types."""
    found = checkers.diagnostics_of_mypy(programs, sorted(path.name for path in programs.glob("*.py")))
    errors = [
        (each["file"], each["line"], each["code"], each["message"]) for each in found if each["severity"] == "error"
    ]
    assert [] == _alarms(programs, errors)


def test_pyright_finds_no_mistake(programs: pathlib.Path) -> None:
    """In its basic mode."""
    found = [each for each in checkers.diagnostics_of_pyright(programs) if each["severity"] == "error"]
    errors = [
        (pathlib.Path(each["file"]).name, each["range"]["start"]["line"] + 1, each.get("rule", ""), each["message"])
        for each in found
    ]
    assert [] == _alarms(programs, errors)
