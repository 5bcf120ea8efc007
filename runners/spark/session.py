"""The SparkSession that a pipeline runs in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...sdk.errors import OptionsError, RunnerError, missing_extra
from ...sdk.options import PipelineOptions, SparkOptions
from .java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"


def find_session(options: PipelineOptions) -> tuple[SparkSession, bool]:
    """The session to run in, and whether it was started for this and is to be stopped after.

    A session that is active already is used: `spark-submit`'s, a notebook's.  Raises
    `RunnerError` when Spark can't be started, `OptionsError` when the active session isn't
    what the options ask for, and `MissingExtraError` when there is no PySpark.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing_extra("pyspark", "spark", "The Spark runner") from None
    spark_options = options.view_as(SparkOptions)
    active = SparkSession.getActiveSession()
    if active is not None:
        _check_active(active, spark_options)
        return active, False
    return _started(SparkSession.builder, spark_options), True


def _check_active(session: Any, options: SparkOptions) -> None:
    master = session.sparkContext.master
    if options.spark_master is not None and options.spark_master != master:
        raise OptionsError(
            f"--spark_master={options.spark_master}: a Spark session is active whose master is {master}; "
            "leave the flag out, or stop that session first"
        )
    for key, value in options.conf().items():
        current = session.sparkContext.getConf().get(key)
        if current != value:
            raise OptionsError(
                f"--spark_conf {key}={value}: a Spark session is active that has {key}={current}; "
                "set it where that session is made"
            )


def _started(builder: Any, options: SparkOptions) -> SparkSession:
    # PySpark takes the workers' interpreter from the environment alone when the context
    # starts in this process; without it they would be whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = home
    conf = options.conf()
    master = options.spark_master or conf.get("spark.master") or (None if submitted else DEFAULT_MASTER)
    builder = builder.appName(options.spark_app_name or "penstock")
    if master is not None:
        builder = builder.master(master)
        for key, value in _loopback(master).items():
            conf.setdefault(key, value)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()  # type: ignore[no-any-return]
    except Exception as error:
        raise RunnerError(f"Spark did not start with master {master}: {error}") from error


def _loopback(master: str) -> dict[str, str]:
    """Settings that keep the driver's sockets on loopback, where its executors are there too."""
    if not master.startswith("local") and urlsplit(master).hostname not in ("localhost", "127.0.0.1", "::1"):
        return {}
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The UI would listen on every interface.
        "spark.ui.enabled": "false",
    }
