"""On what the properties are tried: the one place that says which runners of streams there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support.pipelines.recording import Recording, recorded
from support.runners.local_variants import IN_SIMULATION, IN_THIS_PROCESS, runner_of
from support.suite.examples import variant_of

# Each property holds on each of them.  A script is a job in any case: what other variants have, `local-4` has as well.
STREAMING_RUNNERS = ["local", "local-4", *IN_SIMULATION]

# Runs the pipeline that a function builds; what came to its end.
Run = Callable[[Callable[[Any], Any]], Recording]


@pytest.fixture(scope="session", params=STREAMING_RUNNERS)
def run(request: pytest.FixtureRequest) -> Run:
    """`run(build)` on each runner of streams in turn."""
    return partial(recorded, runner=runner_of(request.param))


# What looks at a whole run from one task's point of view.
OF_ONE_TASK = {"test_nothing_holds_a_watermark_without_a_cause"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [i for i in items if getattr(i, "originalname", "") not in OF_ONE_TASK or not has_tasks(variant_of(i))]


def has_tasks(variant: str) -> bool:
    """Whether the runner cuts pipelines into several tasks."""
    return variant in IN_SIMULATION or (variant in IN_THIS_PROCESS and IN_THIS_PROCESS[variant].parallelism > 1)
