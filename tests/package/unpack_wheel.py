"""Build penstock's wheel from this checkout and unpack it: `python unpack_wheel.py TARGET`.

The build runs in a copy, because setuptools keeps files that were deleted
since in its `build` directory and would put them into the wheel.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def listed_packages() -> list[str]:
    """The packages that pyproject.toml says the wheel has."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return list(tomllib.load(file)["tool"]["setuptools"]["packages"])


def copy_sources(target: pathlib.Path) -> None:
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy2(path, target)
    # The build's own code.
    shutil.copytree(ROOT / "deploy", target / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
    for floor in {name.split(".")[1] for name in listed_packages() if "." in name}:
        shutil.copytree(ROOT / floor, target / floor, ignore=shutil.ignore_patterns("__pycache__"))


def build_wheel(sources: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(sources)]
    built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if built.returncode:
        sys.exit(f"The wheel can't be built:\n{built.stdout}")
    (wheel,) = target.glob("*.whl")
    return wheel


def unpack_wheel(target: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sources, wheels = pathlib.Path(directory, "sources"), pathlib.Path(directory, "wheels")
        sources.mkdir()
        copy_sources(sources)
        wheel = build_wheel(sources, wheels)
        shutil.rmtree(target, ignore_errors=True)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)


if __name__ == "__main__":
    unpack_wheel(pathlib.Path(sys.argv[1]))
