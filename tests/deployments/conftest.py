"""`make deployments` runs the tests here; without `--deployments` they aren't collected, because they take minutes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from deployments.environments import Environments
from servers.yarn import Yarn, running_yarn


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    is_left_out = collection_path.name.startswith("test_") and not config.getoption("--deployments")
    return True if is_left_out else None


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """Environments for executors, which are made when a test first asks for them."""
    return Environments(tmp_path_factory.mktemp("environments"))


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """A YARN cluster."""
    with running_yarn(tmp_path_factory.mktemp("yarn")) as cluster:
        yield cluster
