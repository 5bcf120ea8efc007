"""The editable installation."""

from __future__ import annotations

import base64
import hashlib
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

BUILD = """
import sys
sys.path.insert(0, "deploy")
import build_backend
print(build_backend.build_editable(sys.argv[1]))
"""

FOUND = """
import site, sys
site.addsitedir(sys.argv[1])
import penstock
print(penstock.__file__)
print(*(path for path in sys.path if path.endswith(".editable")))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A directory with the files of the editable wheel."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(wheels)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    with zipfile.ZipFile(wheels / built.stdout.splitlines()[-1]) as archive:
        archive.extractall(site)
    return site


def test_python_imports_the_files_of_the_checkout_and_type_checkers_find_them_by_a_path(
    installed: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The path has a link, under which the package has its name."""
    # Without this environment's own installation.
    command = [sys.executable, "-S", "-c", FOUND, str(installed)]
    environment = {"PYTHONPATH": str(pathlib.Path(pytest.__file__).parents[1])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    imported, folder = ran.stdout.splitlines()
    assert str(ROOT / "__init__.py") == imported
    assert ROOT == pathlib.Path(folder, "penstock").resolve()
    assert pathlib.Path(folder, "penstock", "py.typed").exists()


def test_the_record_lists_the_files_as_they_are(installed: pathlib.Path) -> None:
    """An installer compares them."""
    (record,) = installed.glob("*.dist-info/RECORD")
    lines = [line.rsplit(",", 2) for line in record.read_text().splitlines()]
    for path, digest, size in lines:
        if path.endswith("RECORD"):
            continue
        data = (installed / path).read_bytes()
        expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (f"sha256={expected}", str(len(data))) == (digest, size)
    assert {path for path, _, _ in lines} == {
        str(file.relative_to(installed)) for file in installed.rglob("*") if file.is_file()
    }
