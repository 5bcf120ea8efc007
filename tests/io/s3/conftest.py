"""A server with the API of S3, and a directory of a test's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import s3fs
from servers.s3_server import BUCKET, S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A server, started for the first test that asks."""
    with S3Server.running() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server; its credentials are in the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    # A process asks the environment once.
    s3fs.S3FileSystem.clear_instance_cache()
    return s3_server


@pytest.fixture
def directory(s3: S3Server) -> str:
    """The URL of a directory of the bucket."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"
