"""Programs that are run by Beam's `utils.processes`."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import pytest

from penstock.beam.sdk import processes
from penstock.sdk.names.namespaces import namespace


def test_a_missing_program_is_named() -> None:
    with pytest.raises(RuntimeError, match="Executable .'no-such-program'. not found"):
        processes.check_call(["no-such-program"])


def test_a_failed_program_shows_what_it_printed() -> None:
    with pytest.raises(RuntimeError, match="Output from execution of subprocess: b'no'"):
        processes.check_output([sys.executable, "-c", "print('no', end=''); raise SystemExit(3)"])


def test_a_failed_pip_names_the_package() -> None:
    command = ["python", "-m", "pip", "download", "--dest", "/var", "no-such-package"]
    error = subprocess.CalledProcessError(1, command, output="Collecting")
    failing = mock.patch("subprocess.check_call", side_effect=error)
    with failing, pytest.raises(RuntimeError, match="Pip install failed for package: no-such-package"):
        processes.check_call(command)


def test_a_name_that_is_patched_in_beams_module_is_patched_in_the_module_behind_it() -> None:
    module = namespace("utils.processes")
    with mock.patch.object(module, "subprocess") as fake:
        processes.Popen(["a"])
    fake.Popen.assert_called_once_with(["a"])
    assert processes.subprocess is subprocess
