"""The plan of a commit: the final name of each staged file.

The plan is durable before the first file is renamed.  From then on the transaction is decided: after a crash the rest
of the plan is carried out, with the same outcome.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs

from ....frozen import frozen
from ....sdk.errors import SinkError
from ..filesystem import FileSystem, join_path, split_path

_PLAN = "plan.json"
_VERSION = 1


@frozen
class Renaming:
    """A staged file, by its name in the staging directory, and its final path."""

    staged: str
    final: str
    size: int


def write_plan(fs: FileSystem, directory: str, plan: Sequence[Renaming]) -> None:
    """Write the plan to the staging directory, atomically and durably."""
    path = join_path(directory, _PLAN)
    with fs.create(path + ".tmp") as file:
        file.write(json.dumps({"version": _VERSION, "renamings": [attrs.astuple(entry) for entry in plan]}).encode())
    fs.sync(path + ".tmp")
    fs.rename(path + ".tmp", path)
    fs.sync_directory(directory)


def read_plan(fs: FileSystem, directory: str) -> list[Renaming] | None:
    """Return the plan in a staging directory, or None if the transaction isn't decided yet."""
    path = join_path(directory, _PLAN)
    if not fs.exists(path):
        return None
    with fs.open(path) as file:
        plan = json.load(file)
    if plan["version"] != _VERSION:
        raise SinkError(
            f"{path}: found a plan of version {plan['version']}, expected version {_VERSION}. Another version of "
            "penstock decided this transaction: commit it with that version"
        )
    return [Renaming(*entry) for entry in plan["renamings"]]


def carry_out(fs: FileSystem, directory: str, plan: Sequence[Renaming]) -> None:
    """Rename the files that are not renamed yet, in the plan's order.

    Raises `SinkError` for a file that is neither in the staging directory nor, with the
    size it had there, under its final name.
    """
    for parent in dict.fromkeys(split_path(entry.final)[0] for entry in plan):
        fs.mkdirs(parent)
    for entry in plan:
        staged = join_path(directory, entry.staged)
        if fs.exists(staged):
            fs.rename(staged, entry.final)
        elif not fs.exists(entry.final) or fs.size(entry.final) != entry.size:
            raise SinkError(
                f"{entry.final!r} can't be published: its staged file {staged!r} of {entry.size} bytes is gone. "
                "Another program removed it before it was committed; run the pipeline again"
            )
    for parent in dict.fromkeys(split_path(entry.final)[0] for entry in plan):
        fs.sync_directory(parent)
