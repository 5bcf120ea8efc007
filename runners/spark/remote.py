"""Sessions of Spark Connect: a client of a server elsewhere, in which the driver runs."""

from __future__ import annotations

import os
import socket
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...sdk.errors import OptionsError, RunnerError, missing_extra
from ...sdk.options import PipelineOptions, SparkOptions
from ...sdk.redaction import redacted_cause
from .private import has_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark's variable for the server of all sessions of a program.
_VARIABLE = "SPARK_REMOTE"

# The port of a URL without one; seconds to wait for a connection; and the variables of proxies of gRPC, behind which a
# connection says nothing.
_DEFAULT_PORT = 15002
_PATIENCE = 30.0
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


def is_remote(session: Any) -> bool:
    """Return True for a session of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def address_of(options: PipelineOptions, environ: Any = os.environ) -> str | None:
    """Return the URL of the Spark Connect server that a run uses, or None for a run that doesn't use Spark Connect.

    Raises `OptionsError` for a URL that isn't one, and for a master beside it.

    >>> address_of(PipelineOptions(["--spark_remote=sc://host"]))
    'sc://host'
    """
    ours = options.view_as(SparkOptions)
    remote: str | None = ours.spark_remote
    if remote is None and ours.spark_master is None:
        remote = environ.get(_VARIABLE) or None
    if remote is None:
        return None
    if not remote.startswith("sc://"):
        raise OptionsError(f"option --spark_remote: expected the URL of a server, sc://host:port, got {remote!r}")
    if ours.spark_master is not None:
        raise OptionsError(
            f"options --spark_remote, --spark_master: a Spark Connect server has its own master, and "
            f"--spark_master={ours.spark_master} has no effect; leave one of them out"
        )
    return remote


def _active_session(options: PipelineOptions) -> Any:
    """Return the session of Spark Connect that this process has, such as a notebook's, or None.

    A process that has a driver as well runs in that.
    """
    module = sys.modules.get("pyspark.sql.connect.session")
    if module is None or options.view_as(SparkOptions).spark_master is not None:
        return None
    return None if has_driver() else module.SparkSession.getActiveSession()


def remote_session(options: PipelineOptions, given: SparkSession | None) -> tuple[SparkSession, bool] | None:
    """Return the session of Spark Connect to run in, and True if it was started for this run; None for a classic run.

    Raises `RunnerError` if the server doesn't answer, and `MissingExtraError` without the client's packages.
    """
    url = address_of(options)
    if given is None and options.view_as(SparkOptions).spark_remote is None:
        given = _active_session(options)
    if given is not None:
        return (given, False) if is_remote(given) else None
    if url is None:
        return None
    if find_spec("pyspark") is None or find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise missing_extra("grpcio", "connect", "--spark_remote")
    _check_answers(url)
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    builder: Any = SparkSession.builder.remote(url)
    for key, value in options.view_as(SparkOptions).conf().items():
        builder = builder.config(key, value)
    session = None
    try:
        session = builder.create()
        # The server is asked for the first time.
        _ = session.version
    except (PySparkException, OSError, ValueError) as error:
        if session is not None:
            session.stop()
        raise _no_answer(url, error) from redacted_cause(error)
    return session, True


def _check_answers(url: str) -> None:
    """Raise `RunnerError` if nothing listens at the URL: the client itself would try for ten minutes."""
    if any(name in os.environ for name in _PROXIES):
        return
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname or "", address.port or _DEFAULT_PORT), timeout=_PATIENCE):
            pass
    except (OSError, ValueError) as error:
        raise _no_answer(url, error) from None


def _no_answer(url: str, error: Exception) -> RunnerError:
    # What follows the first semicolon may be a token.
    return RunnerError(f"Spark Connect did not answer at {url.split(';')[0]}: {str(error).strip().splitlines()[0]}")
