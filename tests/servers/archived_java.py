"""A Java for the JVMs of Spark that tests start: with options for short lives, and an archive of Spark's classes.

What the tests start runs for seconds, and half of a JVM's time would go into compiling code for hours: with the first
compiler only, a driver takes half as long.  With the collector of one thread, and without verifying Spark's own
classes, it takes a fifth less again.  Reading and parsing ten thousand classes is most of the rest: the archive has
them as the JVM keeps them (application class data sharing).

`python archived_java.py` writes the archive, if there is none of this environment's.  Java takes one only for the class
path that it was written with, and says nothing otherwise: an environment that was copied needs its own.  It takes none
with a directory of files on the path.  So Spark's configuration directory is an empty one, and the options are in a
script in the place of `java`, which JAVA_HOME names.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# In the environment of this interpreter.
HOME = Path(sys.prefix, "java")
ARCHIVE = HOME / "spark.jsa"

# What the archive was written with, as text.
WRITTEN_WITH = HOME / "spark.jsa-written-with"

# The value of SPARK_CONF_DIR for all that tests start: it has none of this machine's own settings.
CONF = HOME / "conf"

OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"

# The launcher only prints a command, and other programs have other classes.
SCRIPT = """\
#!/bin/sh
case " $* " in
  *" org.apache.spark.launcher.Main "*) ;;
  *" org.apache.spark."*)
    if [ -n "$PENSTOCK_WRITES_ARCHIVE" ]; then
      set -- -XX:ArchiveClassesAtExit="$PENSTOCK_WRITES_ARCHIVE" "$@"
    elif [ -e {archive} ]; then
      set -- -XX:SharedArchiveFile={archive} "$@"
    fi ;;
esac
exec {java} {options} -Xlog:disable -Xlog:all=error:stderr "$@"
"""

# It has a shuffle, a side input, micro-batches with state, and a DataFrame.
PROGRAM = """
import sys
import penstock as beam
from penstock.runners.spark import SparkBatchRunner, SparkMicroBatchRunner
from penstock.testing import assert_that, equal_to
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
for runner in (SparkBatchRunner(session), SparkMicroBatchRunner(session)):
    with beam.Pipeline(runner) as p:
        numbers = p | beam.Create(range(8))
        total = beam.pvalue.AsSingleton(numbers | beam.CombineGlobally(sum))
        pairs = numbers | beam.Map(lambda n, all: (n % 2, n * all), total) | beam.GroupByKey()
        assert_that(pairs | beam.MapTuple(lambda key, values: (key, sum(values))), equal_to([(0, 336), (1, 448)]))
frame = session.createDataFrame([(1, "a"), (2, "b")], ["n", "word"])
frame.groupBy("word").count().collect()
gateway = session.sparkContext._gateway
session.stop()
gateway.shutdown()
gateway.proc.stdin.close()
sys.exit(gateway.proc.wait(120))
"""


def settings() -> dict[str, str]:
    """Return environment variables for what starts Spark; none if there is no Java."""
    found = {"JAVA_HOME": str(HOME), "SPARK_CONF_DIR": str(CONF)}
    if os.environ.get("JAVA_HOME") == str(HOME):
        return found
    given = Path(os.environ.get("JAVA_HOME", "/nonexistent"), "bin", "java")
    java = str(given) if given.is_file() else shutil.which("java")
    if java is None:
        return {}
    script = SCRIPT.format(java=shlex.quote(java), archive=shlex.quote(str(ARCHIVE)), options=OPTIONS)
    file = HOME / "bin" / "java"
    CONF.mkdir(parents=True, exist_ok=True)
    if not file.exists() or file.read_text() != script:
        # Several processes may do so.
        file.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as new:
            new.write(script)
        os.chmod(new.name, 0o755)
        os.replace(new.name, file)
    return found


def written_with() -> str:
    """Return what an archive depends on: the directory of Spark's classes, their versions, Java's, and the program."""
    import pyspark

    java = subprocess.run([HOME / "bin" / "java", "-version"], capture_output=True, text=True, check=True).stderr
    return "\n".join((str(Path(pyspark.__file__).parent), pyspark.__version__, java, SCRIPT, PROGRAM))


def write_archive() -> None:
    """Run a program on Spark, whose JVM writes the archive at its end, unless there is one."""
    found = settings()
    if not found:
        return
    needed = written_with()
    if ARCHIVE.exists() and WRITTEN_WITH.exists() and WRITTEN_WITH.read_text() == needed:
        return
    written = ARCHIVE.with_name(f"{ARCHIVE.name}-new")
    written.unlink(missing_ok=True)
    found |= {"PENSTOCK_WRITES_ARCHIVE": str(written), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | found,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode or not written.exists():
        print(f"There is no archive of Spark's classes, and the tests are slower. {ran.stderr}", file=sys.stderr)
    else:
        written.replace(ARCHIVE)
        WRITTEN_WITH.write_text(needed)


if __name__ == "__main__":
    write_archive()
