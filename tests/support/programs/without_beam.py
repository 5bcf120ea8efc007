"""A checkout without Beam's package: `python tests/support/programs/without_beam.py` runs the core's tests in a copy.

What pytest is given besides, such as `-k words`, is added to its arguments.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parents[3]

# Packages and documents are those of a checkout with Beam's package.
_NOT_THE_CORES = (
    "architecture",
    "package",
    "typing",
    "deploy",
    "deployments",
    "release",
    "against_beam",
    "examples/beam",
)

# An editable installation would find what the copy lacks.
_NO_INSTALLATION = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]
"""


def copy_to(directory: pathlib.Path) -> pathlib.Path:
    """Copy the files of the checkout, without `beam/` and its tests, to `penstock` in a directory, and return that."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith(("beam/", "tests/beam/")) and (ROOT / name).is_file():
            path = directory / "penstock" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, path)
    # What was fetched.
    for fetched in (ROOT / ".kafka", ROOT / ".bigquery"):
        if fetched.is_dir():
            (directory / "penstock" / fetched.name).symlink_to(fetched)
    (directory / "sitecustomize.py").write_text(_NO_INSTALLATION)
    return directory / "penstock"


def environment(copy: pathlib.Path) -> dict[str, str]:
    """Return the environment of processes that import the copy."""
    found = {**os.environ, "PYTHONPATH": str(copy.parent)}
    found.pop("PYTEST_ADDOPTS", None)
    return found


def run_tests(copy: pathlib.Path, arguments: Sequence[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy, with the settings of `subprocess.run`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=copy, env=environment(copy), text=True, check=False, **settings)


def main() -> int:
    """Run all tests of the core, and return pytest's status."""
    with tempfile.TemporaryDirectory(prefix="penstock-without-beam-") as directory:
        ignored = [f"--ignore=tests/{name}" for name in _NOT_THE_CORES]
        return run_tests(
            copy_to(pathlib.Path(directory)), ["--spark-beside", *ignored, *sys.argv[1:], "tests"]
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
