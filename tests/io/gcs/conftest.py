"""A server with the API of Google Cloud Storage, and a directory of a test's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from servers.gcs_server import BUCKET, GcsServer


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """A server, started for the first test that asks."""
    with GcsServer.running() as server:
        yield server


@pytest.fixture
def gcs(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """The server, whose address is in the environment."""
    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    # Which looks at the environment when it is imported, and whose objects do so once.
    from gcsfs.core import GCSFileSystem

    GCSFileSystem.clear_instance_cache()
    return gcs_server


@pytest.fixture
def directory(gcs: GcsServer) -> str:
    """The URL of a directory of the bucket."""
    return f"gs://{BUCKET}/{uuid.uuid4().hex}"
