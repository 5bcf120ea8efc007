"""How a directory with logs of productions is told from one with checkpoints."""

from __future__ import annotations

from ...sdk.errors import CheckpointMismatchError
from .disk import Disk

# The file that says who owns the logs, in their directory.
OWNER = "productions.json"


def refuse_productions(disk: Disk, directory: str) -> None:
    """Raises `CheckpointMismatchError` for a directory in which productions were logged: nobody else goes on there."""
    if disk.exists(f"{directory}/{OWNER}"):
        raise CheckpointMismatchError(
            f"{directory} has logs of productions, of --runner=local with --delivery=strong or weak; go on with that, "
            "or give another --checkpoint_dir"
        )
