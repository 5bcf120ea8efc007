"""A real Spark Connect server on the loopback interface, from the jars of PySpark."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from servers.spark_standalone import Daemon


@contextlib.contextmanager
def running_connect_server(directory: pathlib.Path, *options: str, master: str = "local[2]") -> Iterator[str]:
    """The `sc://` address of a server that lives as long as the block.

    Args:
      options: further options of spark-submit.
    """
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    submit = ["org.apache.spark.deploy.SparkSubmit", "--master", master, *options]
    for key, value in settings.items():
        submit += ["--conf", f"{key}={value}"]
    server = Daemon(
        "connect",
        [*submit, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"],
        directory,
        memory="1g",
    )
    try:
        port = server.wait_for(r"Spark Connect server started at: \S*:(\d+)").group(1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()
