"""A worker process that exits unexpectedly."""

from __future__ import annotations

import os
import pathlib
import signal
from typing import Any

import pytest
from support.runners.local_variants import IN_PROCESSES, SideBySide

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


def test_a_worker_that_is_killed_may_have_run_out_of_memory() -> None:
    """The kernel leaves no other trace in it."""
    pipeline = TestPipeline(SideBySide(IN_PROCESSES["local-2-processes"]))
    _ = pipeline | beam.Create([1]) | beam.Map(lambda _: os.kill(os.getpid(), signal.SIGKILL))

    with pytest.raises(PenstockError, match=r"was killed by SIGKILL \(.* when memory runs out: see dmesg\)"):
        pipeline.run()


def without_memory(element: Any) -> Any:
    """Leave this worker no memory to send an element."""
    from penstock.runners.local.channels import channel

    def out_of_memory(*_: Any) -> Any:
        raise MemoryError

    channel.encode_bundle = out_of_memory
    return element


def test_a_worker_without_memory_is_logged_and_fails_the_run_by_name(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Outside of user code, where Python's MemoryError has no text."""
    flags = ["--parallelism=2", f"--checkpoint_dir={tmp_path}", "--max_restarts=1", "--restart_delay=0.01"]
    pipeline = beam.Pipeline(argv=flags)
    _ = pipeline | beam.Create(range(100)) | beam.Map(without_memory) | beam.WithKeys(str) | beam.GroupByKey()

    with pytest.raises(PenstockError, match="^MemoryError$"):
        pipeline.run()
    assert "The pipeline failed, and restarts in 0.0 s: MemoryError" in [each.getMessage() for each in caplog.records]
