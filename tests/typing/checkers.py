"""Type checkers over the files of a directory, one of which has all snippets."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import attrs

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
DEFINITIONS = (HERE / "definitions.py").read_text()
PYPROJECT = ROOT / "pyproject.toml"
# What mypy would report in programs besides mistakes.
ALLOWED = ("disallow_untyped_defs", "disallow_untyped_calls", "disallow_incomplete_defs", "warn_unreachable")
# The file of all snippets.
TABLE = "table.py"


@attrs.frozen
class Said:
    """What a checker says about the snippets.

    Attributes:
      types: the revealed type of each snippet, by its number.
      errors: the texts of its errors, by its number; those of the definitions by -1.
    """

    types: dict[int, str]
    errors: dict[int, list[str]]


def program(snippets: list[str]) -> str:
    """Return the file with the definitions and a line for each snippet."""
    return DEFINITIONS + "\n" + "".join(f"reveal_type({snippet})\n" for snippet in snippets)


def _numbers(snippets: list[str]) -> dict[int, int]:
    first = DEFINITIONS.count("\n") + 2
    return {first + number: number for number in range(len(snippets))}


def plain(revealed: str) -> str:
    """Return a type without modules, and with the classes of literals.

    >>> plain('penstock.sdk.pvalue.PCollection[tuple[builtins.str, Literal[1]?]]')
    'PCollection[tuple[str, int]]'
    """
    text = revealed
    # A named tuple, innermost first: of the tuple's types only brackets without another named tuple are left.
    while named := re.search(r", fallback=([\w.]+)\]", text):
        start, depth = named.start(), 1
        while depth:
            start -= 1
            depth += (text[start] == "]") - (text[start] == "[")
        text = text[: text.rindex("tuple", 0, start)] + named[1] + text[named.end() :]
    text = re.sub(r"Literal\['[^]]*'\]\??", "str", text)
    text = re.sub(r"Literal\[\d+\]\??", "int", text)
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)
    return text.replace("Unknown", "Any")


def _site() -> pathlib.Path:
    """Return the folder in which the package has its name: that of `make lint`, whose cache mypy finds again."""
    site = ROOT / ".editable"
    site.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (site / "penstock").symlink_to("..", target_is_directory=True)
    return site


def _settings_of_mypy(modules: list[str]) -> str:
    """Return the settings of `make lint`, with what is allowed in some modules."""
    (shared,) = re.findall(
        r"^\[tool\.mypy\]\n.*?(?=^\[(?!\[?tool\.mypy))", PYPROJECT.read_text(), re.DOTALL | re.MULTILINE
    )
    own = "".join(f"{name} = false\n" for name in ALLOWED)
    return f"{shared}\n[[tool.mypy.overrides]]\nmodule = {json.dumps(modules)}\n{own}"


def diagnostics_of_mypy(directory: pathlib.Path, files: list[str]) -> list[dict[str, Any]]:
    """Run mypy with `--strict`, but for definitions without types, over files of a directory.

    Its settings for all other modules are those of `make lint`, or what that has found about them would be found again.
    """
    settings = directory / "pyproject.toml"
    settings.write_text(_settings_of_mypy([pathlib.Path(file).stem for file in files]))
    command = [
        *(sys.executable, "-m", "mypy", f"--config-file={settings}", "--no-error-summary", "--output=json"),
        *(f"--cache-dir={ROOT / '.mypy_cache'}", *files),
    ]
    environment = {**os.environ, "MYPYPATH": str(_site())}
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def diagnostics_of_pyright(directory: pathlib.Path) -> list[dict[str, Any]]:
    """Run Pyright in its basic mode over a directory."""
    settings = {
        "include": ["*.py"],
        "extraPaths": [str(_site())],
        "typeCheckingMode": "basic",
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", str(directory)]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return list(json.loads(done.stdout)["generalDiagnostics"])


def said_by_mypy(found: list[dict[str, Any]], snippets: list[str]) -> Said:
    """Return what mypy says about the snippets, which are in a file of the name `TABLE`."""
    numbers = _numbers(snippets)
    types: dict[int, str] = {}
    errors: dict[int, list[str]] = {}
    for each in found:
        if each["file"] != TABLE:
            continue
        number = numbers.get(each["line"], -1)
        if revealed := re.fullmatch(r'Revealed type is "(.*)"', each["message"]):
            types[number] = plain(revealed[1])
        else:
            errors.setdefault(number, []).append(re.sub(r"\b(?:\w+\.)+(?=[A-Z])", "", each["message"]))
    return Said(types, errors)


def said_by_pyright(found: list[dict[str, Any]], snippets: list[str]) -> Said:
    """Return what Pyright says about the snippets, which are in a file of the name `TABLE`."""
    numbers = _numbers(snippets)
    types: dict[int, str] = {}
    errors: dict[int, list[str]] = {}
    for each in found:
        if pathlib.Path(each["file"]).name != TABLE:
            continue
        number = numbers.get(each["range"]["start"]["line"] + 1, -1)
        if revealed := re.fullmatch(r'Type of ".*" is "(.*)"', each["message"], re.DOTALL):
            types[number] = plain(revealed[1])
        elif each["severity"] == "error":
            errors.setdefault(number, []).append(each["message"])
    return Said(types, errors)
