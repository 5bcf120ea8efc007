"""A worker process that exits unexpectedly."""

from __future__ import annotations

import os
from typing import Any

import pytest
from side_by_side import IN_PROCESSES, SideBySide

import penstock as beam
from penstock.sdk.errors import PenstockError
from penstock.testing import TestPipeline


def leave(element: Any) -> None:
    """End the process past all that could notice."""
    os._exit(3)


def test_user_code_that_ends_its_process_is_guessed_at() -> None:
    """There is nothing else to be known of it."""
    pipeline = TestPipeline(SideBySide(IN_PROCESSES["local-2-processes"]))
    _ = pipeline | beam.Create([1]) | beam.Map(leave)

    with pytest.raises(PenstockError, match=r"worker \d \(pid \d+\) exited unexpectedly with status 3 .*os._exit\?"):
        pipeline.run()
