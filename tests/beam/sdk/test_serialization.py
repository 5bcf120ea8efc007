"""Examples of Beam in pickles."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

_PROGRAM_OF_BEAM = """
import cloudpickle
from penstock.beam.import_hook import install_import_hook
from penstock.sdk.user_code.serialization import local_modules_by_value

install_import_hook()
import apache_beam.io, apache_beam.examples.shouting
with local_modules_by_value():
    print(*sorted(cloudpickle.list_registry_pickle_by_value()))
"""


def test_examples_of_the_installed_beam_go_by_value(tmp_path: pathlib.Path) -> None:
    """An executor would import Beam itself with them."""
    examples = tmp_path / "site-packages" / "apache_beam" / "examples"
    examples.mkdir(parents=True)
    for file in (examples.parent / "__init__.py", examples / "__init__.py", examples / "shouting.py"):
        file.touch()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM_OF_BEAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site-packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("apache_beam.examples.shouting\n", "") == (done.stdout, done.stderr)
