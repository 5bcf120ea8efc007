"""Fresh environments, with the oldest or the newest dependencies, in which a release is tried."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from release.building import ROOT, run

SMOKE = Path(__file__).with_name("smoke.py")


def extras() -> dict[str, list[str]]:
    """The extras of pyproject.toml, with their requirements."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return dict(tomllib.load(file)["project"]["optional-dependencies"])


def find_python(name: str) -> str | None:
    """Return the interpreter of a version, if this machine has it, or pyenv, or uv can fetch it."""
    if "/" in name:
        return name
    candidates = [shutil.which(f"python{name}"), *Path.home().glob(f".pyenv/versions/{name}.*/bin/python")]
    found = next((str(path) for path in candidates if path is not None and _runs(path)), None)
    if found is None:
        subprocess.run(["uv", "python", "install", "--quiet", name], capture_output=True, check=False)
        done = subprocess.run(
            ["uv", "python", "find", "--no-project", name], capture_output=True, text=True, check=False
        )
        found = done.stdout.strip() if done.returncode == 0 else None
    return found


def _runs(python: str | Path) -> bool:
    """Return whether an interpreter starts; one of pyenv on the path may stand for none."""
    return subprocess.run([str(python), "-c", ""], capture_output=True, check=False).returncode == 0


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


def environment(work: Path, python: str, what: Path, extra: str | None, resolution: str) -> Path:
    """Make an environment with a release and an extra.  Returns its interpreter."""
    directory = Path(tempfile.mkdtemp(prefix="env-", dir=work), "venv")
    run(["uv", "venv", "--quiet", "--python", python, str(directory)])
    interpreter = directory / "bin" / "python"
    # Named one by one, they are direct requirements, whose oldest versions `lowest-direct` takes.
    wanted = [f"penstock{f'[{extra}]' if extra else ''} @ {what.as_uri()}", *requirements(extra)]
    run(["uv", "pip", "install", "--quiet", "--python", str(interpreter), "--resolution", resolution, *wanted])
    return interpreter


def smoke(work: Path, python: str, what: Path, resolution: str, extra: str | None) -> None:
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


def write_sbom(work: Path, python: str, wheel: Path, sbom: Path) -> Path:
    """Write what the wheel needs with all extras, as CycloneDX."""
    interpreter = environment(work, python, wheel, "all", "highest")
    command = ["cyclonedx_py", "environment", "--output-reproducible", "--pyproject", str(ROOT / "pyproject.toml")]
    run([sys.executable, "-m", *command, "--output-file", str(sbom), str(interpreter)])
    return sbom
