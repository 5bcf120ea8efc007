"""Fencing: only the newest owner of a store commits checkpoints.

Like MillWheel's sequencer: each owner writes a claim with a name greater than all before, and an owner that finds a
greater claim than its own is a zombie.  A claim needs no lock and no exclusive creation of files, so it works on object
stores as well; it requires that a listing has all files written before.

A new owner writes its claim, and then lists the manifests: those are *accepted*.  An old owner writes its manifest, and
then looks for a newer claim.  Whichever was first, one of them sees the other: a commit that found no newer claim is
among the accepted ones, and a manifest that a zombie writes later isn't, and is void.

>>> from penstock.runners.execution.checkpoints.simulated_storage import SimulatedDisk
>>> from random import Random
>>> disk = SimulatedDisk(Random(0))
>>> first = claim(disk, "dir", "aa")
>>> second = claim(disk, "dir", "bb")
>>> first, second, newest_claim(disk.list("dir"))
('00000001-aa', '00000002-bb', '00000002-bb')
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from ....frozen import frozen
from ....sdk.errors import CorruptSnapshotError
from ....sdk.redaction import logger_of
from .manifest import Generation, ManifestName, manifest_name, sealed, unsealed
from .storage import Disk

_logger = logger_of(__name__)

_CLAIM = re.compile(r"generation-(\d{8}-[0-9a-f]+)")


@frozen
class Claim:
    """The claim of an owner.

    Attributes:
      accepted: the manifests at its begin; None until it has listed them, and so has committed nothing.
    """

    generation: Generation
    accepted: tuple[str, ...] | None = None

    def file(self) -> str:
        return f"generation-{self.generation}"


def newest_claim(names: Iterable[str]) -> Generation | None:
    """Return the newest owner, by the names in the store's directory."""
    return max(_claims(names), default=None)


def claim(disk: Disk, directory: str, token: str) -> Generation:
    """Become the owner; earlier owners can't commit from now on.  Raises the disk's `OSError`.

    Several processes may call it at the same time: the last one wins.

    Args:
      token: unique hexadecimal digits.
    """
    while True:
        number = int((newest_claim(disk.list(directory)) or "0").partition("-")[0]) + 1
        ours = Claim(f"{number:08d}-{token}")
        _write(disk, directory, ours)
        names = disk.list(directory)
        if newest_claim(names) == ours.generation:
            break
        # Another process took the same number, or a higher one, at the same time.
        disk.remove(f"{directory}/{ours.file()}")
    older = [generation for generation in _claims(names) if generation < ours.generation]
    accepted = not_void(disk, directory, names)
    _write(disk, directory, attrs.evolve(ours, accepted=tuple(str(name) for name in accepted)))
    disk.remove(*(f"{directory}/{Claim(generation).file()}" for generation in older))
    return ours.generation


def not_void(disk: Disk, directory: str, names: Iterable[str]) -> list[ManifestName]:
    """Return the manifests among some names, without those that a zombie wrote after its successor had begun."""
    names = list(names)
    manifests = [name for name in map(manifest_name, names) if name is not None]
    since = _last_that_looked(disk, directory, names)
    if since is None or since.accepted is None:
        return manifests
    accepted = set(since.accepted)
    return [name for name in manifests if name.generation >= since.generation or str(name) in accepted]


def _last_that_looked(disk: Disk, directory: str, names: Iterable[str]) -> Claim | None:
    """Return the newest claim with a list of accepted manifests."""
    for generation in sorted(_claims(names), reverse=True):
        path = f"{directory}/{Claim(generation).file()}"
        try:
            found = unsealed(path, disk.read(path), "penstock claim", Claim)
        except FileNotFoundError:
            # A newer owner has just removed it, and its own claim accepts at least as many.
            continue
        except CorruptSnapshotError as error:
            _logger.warning("%s; continuing without its list of checkpoints", error)
            continue
        if found.accepted is not None:
            return found
    return None


def _write(disk: Disk, directory: str, claim: Claim) -> None:
    disk.write_atomically(f"{directory}/{claim.file()}", sealed("penstock claim", claim))


def _claims(names: Iterable[str]) -> list[Generation]:
    return [match[1] for match in map(_CLAIM.fullmatch, names) if match is not None]
