"""`python -m pytest -p penstock.beam`, in a separate run of pytest."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).with_name("wordstats")


@pytest.fixture
def foreign(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of a package that was written for Beam."""
    return pathlib.Path(shutil.copytree(PACKAGE, tmp_path / "wordstats"))


def run(directory: pathlib.Path, *flags: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir=.", *flags]
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_the_tests_of_a_package_for_beam_pass_on_penstock(foreign: pathlib.Path) -> None:
    """Its conftest.py imports Beam, too.  It is warned that its `Map(rows.append)` fills a copy."""
    shown = run(foreign, "-p", "penstock.beam")

    assert re.search(r"^=+ 11 passed, 1 warning in ", shown, re.MULTILINE), shown
    assert "apache_beam: penstock" in shown


def test_beam_itself_is_not_replaced_once_it_is_imported(foreign: pathlib.Path) -> None:
    """Half of the tests would use the one, half the other."""
    (foreign / "apache_beam.py").write_text("")
    (foreign / "early.py").write_text("import apache_beam\n")
    shown = run(foreign, "-p", "early", "-p", "penstock.beam")

    assert "ERROR: -p penstock.beam: apache_beam was imported before, from " in shown
