"""The cluster that other tests rely on; that it runs jobs, they show."""

from __future__ import annotations

import pathlib

import pytest
from servers.spark_standalone import Daemon


def test_a_daemon_that_does_not_start_is_an_error_showing_its_log(spark: object, tmp_path: pathlib.Path) -> None:
    """Waiting ends when the process does, not when the time is up."""
    daemon = Daemon("nothing", ["org.example.NoSuchClass"], tmp_path)
    try:
        with pytest.raises(RuntimeError, match="NoSuchClass"):
            daemon.wait_for("never printed")
    finally:
        daemon.stop()
