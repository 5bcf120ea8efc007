"""JVMs of Spark that tests start take Spark's classes from the archive that `make test` has written."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from servers.archived_java import ARCHIVE
from support.programs.spark_programs import environment


def test_a_jvm_of_spark_takes_its_classes_from_the_archive(tmp_path: pathlib.Path) -> None:
    """Otherwise it would only be slower, and say nothing."""
    if not ARCHIVE.exists():
        pytest.skip(f"there is no {ARCHIVE}; make test writes it")
    pyspark = pytest.importorskip("pyspark")
    log = tmp_path / "classes"
    subprocess.run(
        [pathlib.Path(pyspark.__file__).parent / "bin" / "spark-submit", "--version"],
        env=environment(SPARK_SUBMIT_OPTS=f"-Xlog:class+load=info:file={log}"),
        capture_output=True,
        check=True,
    )
    sources = [line for line in log.read_text().splitlines() if " org.apache.spark.deploy.SparkSubmit " in line]
    assert [True] == ["shared objects file (top)" in line for line in sources], "make archive writes one for here"
