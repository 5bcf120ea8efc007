"""The wheel holds the whole package, and nothing else."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from package.unpack_wheel import ROOT, listed_packages

# Directories beside the package's own; those that tools leave have no Python files or a dot in their names.
BESIDE = {"benchmarks", "build", "changes", "deploy", "dist", "docs", "tests"}
FLOORS = [path.name for path in ROOT.iterdir() if path.is_dir() and "." not in path.name and path.name not in BESIDE]
# They import apache_beam, and are programs of the repository.
EXAMPLES_FOR_BEAM = ROOT / "examples" / "beam"

IMPORT_EVERYTHING = """
import importlib, importlib.metadata, pathlib, sys

wheel = pathlib.Path(sys.argv[1])
for file in sorted((wheel / "penstock").rglob("*.py")):
    parts = file.relative_to(wheel).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    module = importlib.import_module(name)
    # The names of a namespace are in a file for type checkers only.
    is_namespace = type(module).__name__ == "Namespace"
    origin = file if is_namespace else pathlib.Path(module.__file__)
    assert origin == file, f"{name} was imported from {origin}, not from the wheel"
    print("module", name)
(distribution,) = importlib.metadata.distributions(name="penstock", path=[str(wheel)])
for entry in distribution.entry_points:
    entry.load()
    print("entry point", entry.group, entry.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory into which the wheel was unpacked."""
    target = tmp_path_factory.mktemp("wheel") / "unpacked"
    script = ROOT / "tests" / "package" / "unpack_wheel.py"
    built = subprocess.run([sys.executable, str(script), str(target)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return target


def files_of_the_tree(pattern: str) -> set[str]:
    """Files of the package as the tree has them, by their path from the root."""
    found = [*ROOT.glob(pattern), *(file for floor in FLOORS for file in (ROOT / floor).rglob(pattern))]
    return {file.relative_to(ROOT).as_posix() for file in found if file.parent != EXAMPLES_FOR_BEAM}


def test_the_packages_listed_are_the_packages_that_exist() -> None:
    """A package that is new, moved or gone has to be so in pyproject.toml as well."""
    inits = [ROOT / "__init__.py", *(init for floor in FLOORS for init in (ROOT / floor).rglob("__init__.py"))]
    expected = sorted(".".join(["penstock", *init.parent.relative_to(ROOT).parts]) for init in inits)

    assert expected == sorted(listed_packages())


def test_every_python_file_is_inside_a_package() -> None:
    """A directory without an `__init__.py` would be left out of the wheel without a word."""
    directories = {(ROOT / file).parent for file in files_of_the_tree("*.py")}

    assert [] == sorted(str(found) for found in directories if not (found / "__init__.py").is_file())


@pytest.mark.parametrize("pattern", ["*.py", "*.csv.gz", "py.typed"])
def test_the_wheel_has_every_file_of_the_package(wheel: pathlib.Path, pattern: str) -> None:
    """Modules, the examples' data and the marker for type checkers."""
    package = wheel / "penstock"

    assert files_of_the_tree(pattern) == {file.relative_to(package).as_posix() for file in package.rglob(pattern)}


def test_every_module_and_entry_point_of_the_wheel_can_be_imported(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In an interpreter of its own, away from the checkout."""
    ran = subprocess.run(
        [sys.executable, "-c", IMPORT_EVERYTHING, str(wheel)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert len(files_of_the_tree("*.py")) == sum(line.startswith("module ") for line in lines)
    assert 6 == sum(line.startswith("entry point ") for line in lines)
