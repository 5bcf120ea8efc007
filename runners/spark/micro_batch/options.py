"""What the flags of a run of micro-batches say: how it is driven, and where its state goes.

>>> from .failpoints import go_on
>>> settings_of(PipelineOptions(["--batch_interval=0.5"]), go_on).interval
500000
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ....sdk.errors import OptionsError
from ....sdk.options import MicroBatchOptions, PipelineOptions, StreamingOptions
from ....sdk.options.byte_size import byte_size
from ...execution.checkpoints.catalog import refuse_productions
from ...execution.spilling.rocksdb import check_rocksdb
from ...execution.streaming_options import check_streaming_flags, refuse_memory, refuse_unheeded
from .failpoints import Reached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...execution.checkpoints.store import SnapshotStore
    from .query import QuerySettings

# Of the flags of a stream those that are heeded here too.
_HEEDED = {
    "checkpoint_dir",
    "checkpoint_retention",
    "allow_dropped_state",
    "allow_changed_sources",
    "allow_new_key_types",
    "allow_untrusted_checkpoints",
    "worker_timeout",
}


def settings_of(options: PipelineOptions, reached: Reached) -> QuerySettings:
    """How the query is driven.  Raises `OptionsError` for a flag that can't be so, or that nothing would come of."""
    from .query import QuerySettings
    from .unbounded_source import Admission

    check_streaming_flags(options)
    given, streaming = options.view_as(MicroBatchOptions), options.view_as(StreamingOptions)
    refuse_memory(streaming.checkpoint_dir, "executors write there as well")
    refuse_unheeded((name for name in streaming.changed() if name not in _HEEDED), "spark-microbatch", "local")
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
        may_start_again=streaming.checkpoint_dir is not None,
        reached=reached,
        shard_memory=_shard_memory(given.shard_memory),
        worker_timeout=streaming.worker_timeout,
    )


def _shard_memory(given: str | int | None) -> int | None:
    if given is None:
        return None
    try:
        size = byte_size(given)
    except ValueError as error:
        raise OptionsError(f"option --shard_memory: {error}") from None
    if size < 1:
        raise OptionsError(f"option --shard_memory: expected at least 1 byte, got {given}")
    check_rocksdb("--shard_memory")
    return size


def store_of(options: PipelineOptions, session: SparkSession) -> SnapshotStore:
    """Where state goes; without a checkpoint_dir to a directory that nobody finds again.

    Raises `OptionsError` without one on a cluster, `CheckpointMismatchError` for one of another kind of run.
    """
    from ...execution.checkpoints.storage import disk_of
    from ...execution.checkpoints.store import SnapshotStore

    streaming = options.view_as(StreamingOptions)
    directory = streaming.checkpoint_dir
    if directory is None:
        if not (session.sparkContext.master or "").startswith("local"):
            raise OptionsError(
                "--runner=spark-microbatch needs a --checkpoint_dir on a cluster: a path or URL that the driver "
                "and all executors can reach"
            )
        directory = tempfile.mkdtemp(prefix="penstock-checkpoints-")
    # Executors have working directories of their own.
    place = str(directory) if "://" in str(directory) else str(Path(directory).absolute())
    place = place.rstrip("/")
    disk = disk_of(place)
    refuse_productions(disk, place)
    return SnapshotStore(
        disk,
        place,
        retain=streaming.checkpoint_retention,
        allow_untrusted=streaming.allow_untrusted_checkpoints,
    )
