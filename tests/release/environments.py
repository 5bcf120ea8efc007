"""Fresh environments, with the oldest or the newest dependencies, in which a release is tried."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from release.building import ROOT, run

SMOKE = pathlib.Path(__file__).with_name("smoke.py")


def extras() -> dict[str, list[str]]:
    """The extras of pyproject.toml, with their requirements."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return dict(tomllib.load(file)["project"]["optional-dependencies"])


def find_python(name: str) -> str | None:
    """Return the interpreter of a version, if this machine has it, or pyenv, or uv can fetch it."""
    if "/" in name:
        return name
    found = shutil.which(f"python{name}")
    if found is None:
        of_pyenv = sorted(pathlib.Path.home().glob(f".pyenv/versions/{name}.*/bin/python"))
        found = str(of_pyenv[-1]) if of_pyenv else None
    if found is None:
        subprocess.run(["uv", "python", "install", "--quiet", name], capture_output=True, check=False)
        done = subprocess.run(
            ["uv", "python", "find", "--no-project", name], capture_output=True, text=True, check=False
        )
        found = done.stdout.strip() if done.returncode == 0 else None
    return found


def requirements(extra: str | None) -> list[str]:
    """Return the requirements of pyproject.toml with an extra, those of other extras in it included."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    wanted = list(project["dependencies"])
    pending = [extra] if extra else []
    while pending:
        for text in project["optional-dependencies"][pending.pop()]:
            requirement = Requirement(text)
            if requirement.name == "penstock":
                pending += requirement.extras
            else:
                wanted.append(text)
    return wanted


def environment(
    work: pathlib.Path, python: str, what: pathlib.Path, extra: str | None, resolution: str
) -> pathlib.Path:
    """Make an environment with a release and an extra.  Returns its interpreter."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="env-", dir=work), "venv")
    run(["uv", "venv", "--quiet", "--python", python, str(directory)])
    interpreter = directory / "bin" / "python"
    # Named one by one, they are direct requirements, whose oldest versions `lowest-direct` takes.
    wanted = [f"penstock{f'[{extra}]' if extra else ''} @ {what.as_uri()}", *requirements(extra)]
    run(["uv", "pip", "install", "--quiet", "--python", str(interpreter), "--resolution", resolution, *wanted])
    return interpreter


def smoke(work: pathlib.Path, python: str, what: pathlib.Path, resolution: str, extra: str | None) -> None:
    """Install a release with an extra, and run the smoke test there; a failure ends the program."""
    interpreter = environment(work, python, what, extra, resolution)
    # Not the checkout's package, nor that of another environment.
    clean = {key: "" for key in os.environ if key.startswith("PYTHON")}
    run([str(interpreter), "-I", str(SMOKE), *([extra] if extra else [])], work, clean)
    listed = json.loads(run(["uv", "pip", "list", "--quiet", "--format=json", "--python", str(interpreter)]))
    direct = {canonicalize_name(Requirement(text).name) for text in requirements(extra)}
    versions = [f"{package['name']} {package['version']}" for package in listed if package["name"] in direct]
    shown = run([str(interpreter), "-I", "-c", "import platform; print(platform.python_version())"]).strip()
    print(f"Python {shown}, {what.suffix}, {extra or 'core'}, {resolution}: ok ({', '.join(versions)})", flush=True)
    shutil.rmtree(interpreter.parents[1])


def write_sbom(work: pathlib.Path, python: str, wheel: pathlib.Path, sbom: pathlib.Path) -> pathlib.Path:
    """Write what the wheel needs with all extras, as CycloneDX."""
    interpreter = environment(work, python, wheel, "all", "highest")
    command = ["cyclonedx_py", "environment", "--output-reproducible", "--pyproject", str(ROOT / "pyproject.toml")]
    run([sys.executable, "-m", *command, "--output-file", str(sbom), str(interpreter)])
    return sbom
