"""The write-ahead log of planned batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.runners.execution.checkpoints.storage import disk_of
from penstock.runners.execution.checkpoints.store import SnapshotStore
from penstock.runners.spark.micro_batch.commit_log import WriteAhead
from penstock.runners.spark.micro_batch.plan import PlannedBatch
from penstock.sdk.errors import UntrustedSnapshotError


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_untrusted_plan_is_read_where_that_is_allowed(tmp_path: Path, is_allowed: bool) -> None:
    """As for checkpoints, `--allow_untrusted_checkpoints` allows it."""
    tmp_path.chmod(0o777)
    batch = PlannedBatch(3, 0, "batch-3")
    store = SnapshotStore(disk_of(str(tmp_path)), str(tmp_path), allow_untrusted=is_allowed)
    WriteAhead(store).write(batch)

    if is_allowed:
        assert batch == WriteAhead(store).read()
        return
    with pytest.raises(UntrustedSnapshotError, match="planned isn't read, because .* can be written by all users"):
        WriteAhead(store).read()
