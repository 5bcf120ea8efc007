"""Which checkpoints are kept, and the removal of what nothing needs any more."""

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
    """The newest `retain` checkpoints whose manifests are whole, damaged ones among them, and all savepoints."""
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
    under_way: Container[int],
    stood_on: Iterable[Checkpoint],
) -> list[str]:
    """Remove what is neither kept nor under way, of this owner and those before it.

    Manifests go first, so that whatever happens no manifest is left without its files.

    Args:
      names: of what is in the directory.
      under_way: the owner's epochs that have begun.
      stood_on: checkpoints whose files deltas of those epochs may stand on.

    Returns the names of the snapshot files that were removed.  Raises `OSError` where the disk does.
    """
    names = list(names)
    keep = {str(each.name) for each in kept}
    manifests = [(name, manifest.generation) for name in names if (manifest := manifest_name(name)) is not None]
    dropped = [name for name, generation in manifests if name not in keep and generation <= owner]
    left = [name for name in names if (match := _UNFINISHED.fullmatch(name)) and match[1] <= owner]
    disk.remove(*(f"{directory}/{name}" for name in dropped + left))

    for each in kept:
        if each.checkpoint is None:
            # Which files it stands on isn't known, so all are kept.
            _logger.warning("%s: no snapshot file is removed while this is damaged: %s", directory, each.damage)
            return []
    needed = {file.file for checkpoint in stood_on for file in checkpoint.files()}
    needed.update(file.file for each in kept if each.checkpoint is not None for file in each.checkpoint.files())

    def is_useless(name: str) -> bool:
        origin = origin_of(name)
        # What isn't ours, or is a later owner's, is left alone.
        if origin is None or name in needed or origin[1] > owner:
            return False
        return origin[1] < owner or origin[0] not in under_way

    useless = [name for name in disk.list(f"{directory}/{FILES}") if is_useless(name)]
    disk.remove(*(f"{directory}/{FILES}/{name}" for name in useless))
    return useless
