"""StagedFile: a complete file that a commit is going to publish."""

from __future__ import annotations

from typing import Any

from ....frozen import frozen
from ....persistence import restores, stored_as


@stored_as("staged-file", 2)
@frozen
class StagedFile:
    """A complete file in the staging directory.

    `shard` is its number if the elements are assigned to shards.  `group` is the group of its elements, in a sink with
    several groups of files.  `elements` is their number, or None if it isn't known.
    """

    name: str
    size: int
    shard: int | None = None
    group: Any = None
    elements: int | None = None


@restores("staged-file", 1)
def _staged_file(name: str, size: int, shard: int | None, group: Any) -> StagedFile:
    return StagedFile(name, size, shard, group)
