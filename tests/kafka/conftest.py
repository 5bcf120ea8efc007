"""A broker, and Spark with its package for Kafka.  The tests here are run by `make kafka`, which fetches both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.broker import KafkaBroker
from kafka.packages import READER, are_here, jars

# Where they can't be run they aren't there: nothing would be skipped, and nothing else be said of Kafka.
collect_ignore_glob = [] if are_here() else ["test_*.py"]


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A real broker."""
    with KafkaBroker.running() as started:
        yield started


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with the package on its class path, instead of the one of all other tests."""
    import pyspark.cloudpickle
    from conftest import pickle_tests_by_value
    from pyspark.sql import SparkSession

    pickle_tests_by_value(pyspark.cloudpickle)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.jars": ",".join(map(str, jars(READER))),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = SparkSession.builder.master("local[2]").appName("penstock-kafka").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
