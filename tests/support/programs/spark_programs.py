"""Programs that use Spark, each in a separate process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from servers import archived_java

_TESTS = Path(__file__).parents[2]

PROGRAMS = _TESTS / "runners" / "spark" / "programs"

# The directory of the module that starts the Python workers of the `spark` fixture.
WORKERS = _TESTS / "servers" / "spark_workers"


def environment(**more: str) -> dict[str, str]:
    """This process's, without what the `spark` fixture has added to it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    # Programs are started where this interpreter is the first, as where its environment was activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**kept, **archived_java.settings(), "SPARK_LOCAL_IP": "127.0.0.1", "PATH": path, **more}


def run_program(directory: Path, name: str, *flags: str, submit: Sequence[str] | None = None) -> str:
    """Run a program with the files beside it from a directory, as a user's; what it wrote to standard output.

    It is run by spark-submit if that is given options.
    """
    program = start_program(directory, name, *flags, submit=submit)
    try:
        output, errors = program.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        program.kill()
        raise
    assert program.returncode == 0, errors
    return output


def start_program(
    directory: Path, name: str, *flags: str, submit: Sequence[str] | None = None
) -> subprocess.Popen[str]:
    """The same, without waiting for its end."""
    # In the checkout they would pass for parts of the package, which workers can import.
    there = directory / "programs"
    shutil.copytree(PROGRAMS, there, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable]
    if submit is not None:
        import pyspark

        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), *submit]
    return subprocess.Popen(
        [*command, str(there / name), *flags],
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
