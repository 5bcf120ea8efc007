"""The command line in a separate process."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import TypeAlias

import pytest

Penstock: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


def command_in(directory: pathlib.Path) -> Penstock:
    """A function that runs the command line in a directory.

    `penstock("run", "pipeline.py", program=...)` writes the program to pipeline.py first.
    """

    def run(*arguments: str, program: str = "") -> subprocess.CompletedProcess[str]:
        (directory / "pipeline.py").write_text(program)
        command = [sys.executable, "-m", "penstock", *arguments]
        return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def penstock(tmp_path: pathlib.Path) -> Penstock:
    """The command line in a directory of its own; see `command_in`."""
    return command_in(tmp_path)
