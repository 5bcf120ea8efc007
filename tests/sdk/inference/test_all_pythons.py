"""Result types that are inferred from code, in each version of Python that is on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
from types import ModuleType

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
FUNCTIONS = HERE / "functions.py"
# What the inference imports of others, none of it compiled.
PACKAGES = ("attr", "attrs", "cloudpickle")

# `make brokers` fetches it.
PYODIDE = pathlib.Path(sys.prefix) / "pyodide" / "node_modules" / "pyodide"


def _interpreter(minor: int) -> str | None:
    """Return an interpreter of Python 3.`minor`: on the path, of pyenv, or of uv."""
    # The shims of pyenv may be of a version that isn't selected.
    path = os.pathsep.join(each for each in os.environ.get("PATH", "").split(os.pathsep) if "shims" not in each)
    found = shutil.which(f"python3.{minor}", path=path)
    if found is not None:
        return found
    home = pathlib.Path.home()
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    of_uv = home / ".local" / "share" / "uv" / "python"
    candidates = [*pyenv.glob(f"3.{minor}.*/bin/python"), *of_uv.glob(f"cpython-3.{minor}.*/bin/python")]
    return str(max(candidates)) if candidates else None


INTERPRETERS = {f"3.{minor}": found for minor in range(11, 15) if (found := _interpreter(minor)) is not None}


def _functions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("inferred_functions", FUNCTIONS)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _directories() -> dict[str, pathlib.Path]:
    """Return the directory of each package that the inference imports."""
    found = {name: importlib.util.find_spec(name) for name in PACKAGES}
    directories = {name: pathlib.Path(spec.origin).parent for name, spec in found.items() if spec and spec.origin}
    return {"penstock": ROOT, **directories}


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """The types in the Python of the tests."""
    return list(_functions().inferred())


@pytest.mark.parametrize("version", INTERPRETERS)
def test_the_types_are_those_of_the_python_of_the_tests(
    version: str, expected: list[str], tmp_path: pathlib.Path
) -> None:
    """In CPython."""
    for name, directory in _directories().items():
        (tmp_path / name).symlink_to(directory, target_is_directory=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [INTERPRETERS[version], "-S", str(FUNCTIONS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert expected == json.loads(done.stdout)


@pytest.mark.parametrize("pyodide", [PYODIDE] if PYODIDE.exists() else [], ids=["3.14"] if PYODIDE.exists() else [])
def test_the_types_are_those_of_the_python_of_the_tests_in_wasm(pyodide: pathlib.Path, expected: list[str]) -> None:
    """In CPython 3.14, compiled to WebAssembly, of which npm has a build."""
    node = shutil.which("node")
    assert node is not None, "Pyodide runs in Node.js, which is not installed"
    program = f"penstock/{FUNCTIONS.relative_to(ROOT)}"
    directories = [f"{name}={directory}" for name, directory in _directories().items()]
    command = [node, str(HERE / "wasm_python.mjs"), str(pyodide), program, *directories]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert expected == json.loads(done.stdout)


def test_most_types_are_known(expected: list[str]) -> None:
    """A table of unknown types would be equal, too."""
    unknown = [each for each in expected if each.endswith(": Any")]
    assert 10 * len(unknown) < len(expected)
