"""The settings of a query and the store of its state, from the pipeline's options.

>>> settings_of(PipelineOptions(["--batch_interval=0.5"])).interval
500000
"""

from __future__ import annotations

import math
import tempfile
from typing import TYPE_CHECKING

from ....sdk.errors import OptionsError
from ....sdk.options import MicroBatchOptions, PipelineOptions, StreamingOptions
from ....sdk.process.working_directory import absolute
from ...execution.checkpoints.catalog import refuse_productions
from ...execution.streaming.state_settings import state_settings_of
from ...execution.streaming_options import check_streaming_flags, refuse_memory, refuse_unheeded
from ..remote import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...execution.checkpoints.store import SnapshotStore
    from .commit_log import Reached
    from .query import QuerySettings

# The streaming options that this runner supports.
_SUPPORTED = {
    "checkpoint_dir",
    "checkpoint_retention",
    "allow_dropped_state",
    "allow_changed_sources",
    "allow_new_key_types",
    "allow_untrusted_checkpoints",
    "worker_timeout",
    "state_backend",
    "state_memory",
    "state_dir",
}


def settings_of(options: PipelineOptions, reached: Reached | None = None) -> QuerySettings:
    """Return the settings of the query.  Raises `OptionsError` for an invalid or unsupported option."""
    from .query import QuerySettings
    from .unbounded_source import Admission

    check_streaming_flags(options)
    given, streaming = options.view_as(MicroBatchOptions), options.view_as(StreamingOptions)
    refuse_memory(streaming.checkpoint_dir, "executors write there as well")
    refuse_unheeded((name for name in streaming.changed() if name not in _SUPPORTED), "spark-microbatch", "local")
    if not (math.isfinite(given.batch_interval) and given.batch_interval >= 0):
        raise OptionsError(f"option --batch_interval: expected seconds, 0 or more, got {given.batch_interval}")
    for name in ("max_records_per_batch", "max_bytes_per_batch"):
        value = getattr(given, name)
        if value is not None and value < 1:
            raise OptionsError(f"option --{name}: expected at least 1, got {value}")
    return QuerySettings(
        interval=round(given.batch_interval * 1_000_000),
        available_now=given.available_now,
        admission=Admission(given.max_records_per_batch, given.max_bytes_per_batch),
        allow_dropped_state=streaming.allow_dropped_state,
        allow_changed_sources=streaming.allow_changed_sources,
        compares_keys=not streaming.allow_new_key_types,
        is_restartable=streaming.checkpoint_dir is not None,
        reached=reached,
        state=state_settings_of(streaming),
        worker_timeout=streaming.worker_timeout,
    )


def store_of(options: PipelineOptions, session: SparkSession) -> SnapshotStore:
    """Return the store of state: in the checkpoint_dir, or in a temporary directory without one.

    Raises `OptionsError` without a checkpoint_dir on a cluster or over Spark Connect, and `CheckpointMismatchError` for
    one that a run with productions has written.
    """
    from ...execution.checkpoints.storage import disk_of
    from ...execution.checkpoints.store import SnapshotStore

    streaming = options.view_as(StreamingOptions)
    directory = streaming.checkpoint_dir
    if directory is None:
        if is_remote(session) or not (session.sparkContext.master or "").startswith("local"):
            where, who = (
                ("over Spark Connect", "this process") if is_remote(session) else ("on a cluster", "the driver")
            )
            raise OptionsError(
                f"--runner=spark-microbatch needs a --checkpoint_dir {where}: a path or URL that {who} "
                "and all executors can access"
            )
        directory = tempfile.mkdtemp(prefix="penstock-checkpoints-")
    # Executors have other working directories.
    path = str(directory) if "://" in str(directory) else absolute(str(directory))
    path = path.rstrip("/")
    disk = disk_of(path)
    refuse_productions(disk, path)
    return SnapshotStore(
        disk,
        path,
        retain=streaming.checkpoint_retention,
        allow_untrusted=streaming.allow_untrusted_checkpoints,
    )
