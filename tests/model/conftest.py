"""Which runners the model is tried on: those of every test, and the local one as a job, in several shapes."""

from __future__ import annotations

import pytest
from side_by_side import IN_PROCESSES, IN_THIS_PROCESS

RUNNERS = ["local", "spark-batch"]

# Forking takes longer than most of these tests: of each kind of thing that travels between
# processes, one or two.
TRIED_IN_PROCESSES: set[str] = set()


@pytest.fixture(params=[*RUNNERS, *IN_THIS_PROCESS, *IN_PROCESSES])
def runner_name(request: pytest.FixtureRequest) -> str:
    """The name of each runner in turn, and of each variant."""
    if request.param.startswith("spark"):
        request.getfixturevalue("spark")
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if is_tried(item)]


def is_tried(item: pytest.Item) -> bool:
    """Whether a test is for the variant that it would be run on."""
    callspec = getattr(item, "callspec", None)
    name = callspec.params.get("runner_name", "local") if callspec else "local"
    if name in IN_PROCESSES:
        return getattr(item, "originalname", "") in TRIED_IN_PROCESSES
    # A flag can't name a variant.
    return name in RUNNERS or "runner" in getattr(item, "fixturenames", ())
