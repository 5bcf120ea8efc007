"""The archives of the golden checkpoints, unpacked."""

from __future__ import annotations

import json
import pathlib
import tarfile
from typing import Any

from golden.pipelines import Golden
from golden.write import path_of
from support.programs.archives import unpack


def unpacked(golden: Golden, directory: pathlib.Path) -> list[Any]:
    """Unpack a checkpoint, for this user alone; the results that are expected."""
    with tarfile.open(path_of(golden)) as archive:
        unpack(archive, directory)
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    found: list[Any] = json.loads((directory / "expected.json").read_text())
    return found
