"""The local runner refuses the flags and the checkpoints of another runner."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.sdk.errors import CheckpointMismatchError, OptionsError


def test_a_flag_of_micro_batches_is_refused() -> None:
    """A stream that was told `--available_now` went on without an end."""
    p = beam.Pipeline(options=PipelineOptions(["--available_now"]))
    p | beam.Create([1])

    with pytest.raises(OptionsError, match="--available_now: --runner=local doesn't support it, only --runner=sp"):
        p.run()


def test_checkpoints_of_micro_batches_are_refused(tmp_path: Path) -> None:
    """They used to cause a `KeyError` when a task looked for its part."""
    store = SnapshotStore(disk_of(str(tmp_path)), str(tmp_path))
    store.take_over()
    store.begin(1)
    part = {"level": 0, "shard": 0, "of": 2, "labels": []}
    store.commit(1, [], {"parts": {"level 0, shard 0 of 2": part}})
    p = beam.Pipeline(options=PipelineOptions([], checkpoint_dir=str(tmp_path)))
    p | beam.Create([1])

    with pytest.raises(CheckpointMismatchError, match="were written by another runner; give another --checkpoint_dir"):
        p.run()
