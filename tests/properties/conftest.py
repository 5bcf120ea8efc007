"""On what the properties are tried: the one place that says which runners of streams there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from recording import Recording, recorded

# Each property holds on each of them.
STREAMING_RUNNERS = ["local"]

# Runs the pipeline that a function builds; what came to its end.
Run = Callable[[Callable[[Any], Any]], Recording]


@pytest.fixture(scope="session", params=STREAMING_RUNNERS)
def run(request: pytest.FixtureRequest) -> Run:
    """`run(build)` on each runner of streams in turn."""
    return partial(recorded, runner=request.param)
