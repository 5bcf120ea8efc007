"""Packages of Kafka from Maven Central: a broker, and Spark's package that reads from one.

`python tests/kafka/packages.py` fetches both; Spark itself does it, as for `--packages`.  They lie in the checkout, for
the version of Spark that this interpreter has.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

BROKER = "broker"
READER = "spark"

CACHE = pathlib.Path(__file__).parents[2] / ".kafka"

# Starts Spark, which fetches what it is told to put on its class path.
FETCH = """
import sys
from pyspark.sql import SparkSession
packages, directory = sys.argv[1:]
settings = {"spark.jars.packages": packages, "spark.jars.ivy": directory, "spark.ui.enabled": "false"}
SparkSession.builder.master("local[1]").config(map=settings).getOrCreate().stop()
"""


def coordinates(of: str) -> str:
    """The names of packages, as Spark takes them."""
    if of == READER:
        return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
    # Without the second it would log nothing.
    return "org.apache.kafka:kafka_2.13:3.9.1,org.slf4j:slf4j-simple:1.7.36"


def directory(of: str) -> pathlib.Path:
    """Where packages are, or are to be."""
    return CACHE / version("pyspark") / of


def jars(of: str) -> list[pathlib.Path]:
    """Return the fetched files, or nothing if none were fetched."""
    return sorted((directory(of) / "jars").glob("*.jar"))


def are_here() -> bool:
    """Whether there is all that the tests in this directory need."""
    try:
        version("pyspark")
    except PackageNotFoundError:
        return False
    return importlib.util.find_spec("confluent_kafka") is not None and all(map(jars, (BROKER, READER)))


def fetch(of: str) -> str | None:
    """Fetch packages if they aren't here; return what Spark has to say if they can't be had."""
    if jars(of):
        return None
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", FETCH, coordinates(of), str(directory(of))]
    fetched = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if fetched.returncode or not jars(of):
        return f"{coordinates(of)} can't be had from Maven Central:\n{fetched.stderr}"
    return None


def why_there_is_no_broker() -> str | None:
    """Return the missing prerequisite of a broker, or None.  Fetches it."""
    for package, extra in (("confluent_kafka", "kafka"), ("pyspark", "spark")):
        if importlib.util.find_spec(package) is None:
            return f"the extra {extra} is not installed"
    if shutil.which("java") is None:
        return "there is no java on the PATH"
    return fetch(BROKER)


if __name__ == "__main__":
    for each in (BROKER, READER):
        print(f"Fetching {coordinates(each)}", flush=True)
        if problem := fetch(each):
            sys.exit(problem)
