"""Retention: keeps the newest checkpoints and all savepoints, and removes other files."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from ....sdk.redaction import logger_of
from .catalog import FILES, Found
from .manifest import Checkpoint, CheckpointKind, Generation, manifest_name, origin_of
from .storage import UNFINISHED, Disk

_logger = logger_of(__name__)

# A manifest or a claim that was being written when its owner died.
_UNFINISHED = re.compile(rf"(?:manifest-\d{{12}}|generation)-(\d{{8}}-[0-9a-f]+).*{re.escape(UNFINISHED)}")


def kept_by_retention(found: Sequence[Found], retain: int) -> list[Found]:
    """Return the newest `retain` undamaged checkpoints, the damaged ones between them, and all savepoints."""
    kept, whole = [], 0
    for each in found:
        if each.name.kind is CheckpointKind.SAVEPOINT or whole < retain:
            kept.append(each)
        whole += each.checkpoint is not None and each.name.kind is CheckpointKind.CHECKPOINT
    return kept


def collect(
    disk: Disk,
    directory: str,
    owner: Generation,
    names: Iterable[str],
    kept: Sequence[Found],
    in_progress: Container[int],
    bases: Iterable[Checkpoint],
) -> list[str]:
    """Remove the checkpoints of this owner and earlier ones that are neither kept nor in progress.

    Manifests are removed first, so that no crash leaves a manifest without its files.

    Args:
      names: the names in the directory.
      in_progress: the owner's epochs that have begun.
      bases: checkpoints whose files deltas of those epochs may depend on.

    Returns the names of the removed snapshot files.  Raises the disk's `OSError`.
    """
    names = list(names)
    keep = {str(each.name) for each in kept}
    manifests = [(name, manifest.generation) for name in names if (manifest := manifest_name(name)) is not None]
    dropped = [name for name, generation in manifests if name not in keep and generation <= owner]
    unfinished = [name for name in names if (match := _UNFINISHED.fullmatch(name)) and match[1] <= owner]
    disk.remove(*(f"{directory}/{name}" for name in dropped + unfinished))

    for each in kept:
        if each.checkpoint is None:
            # Its files aren't known, so all files are kept.
            _logger.warning("%s: no snapshot file is removed while this is damaged: %s", directory, each.damage)
            return []
    needed = {file.file for checkpoint in bases for file in checkpoint.files()}
    needed.update(file.file for each in kept if each.checkpoint is not None for file in each.checkpoint.files())

    def is_useless(name: str) -> bool:
        origin = origin_of(name)
        # Other files, and those of a later owner, stay.
        if origin is None or name in needed or origin[1] > owner:
            return False
        return origin[1] < owner or origin[0] not in in_progress

    useless = [name for name in disk.list(f"{directory}/{FILES}") if is_useless(name)]
    disk.remove(*(f"{directory}/{FILES}/{name}" for name in useless))
    return useless
