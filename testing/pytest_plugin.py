"""What penstock brings to pytest: pipelines in tests don't read pytest's own flags, and can be simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def pytest_configure(config: Any) -> None:
    """`PipelineOptions()` reads the command line, which in a test is pytest's."""
    from ..sdk.options import pipeline_options

    pipeline_options.implicit_flags = []


@pytest.fixture
def simulate() -> Callable[..., None]:
    """`simulate(pipeline, seeds=20)`: run it under seeds, with all that can go wrong; see `simulate_pipeline`."""
    from .simulating import simulate_pipeline

    return simulate_pipeline
