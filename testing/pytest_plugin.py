"""What penstock brings to pytest: pipelines in tests don't read pytest's own flags."""

from __future__ import annotations

from typing import Any


def pytest_configure(config: Any) -> None:
    """`PipelineOptions()` reads the command line, which in a test is pytest's."""
    from ..sdk.options import pipeline_options

    pipeline_options.implicit_flags = []
