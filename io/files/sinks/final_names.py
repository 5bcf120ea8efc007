"""FinalNames: the claim of a sink to the names of its files; no two sinks of a pipeline can write the same files."""

from __future__ import annotations

import os
from collections.abc import Callable

import attrs

from ....frozen import frozen
from ....sdk.claims import Claim
from ..filesystem import local_path


@frozen
class FinalNames(Claim):
    """The names of the files of a sink.

    Attributes:
      first: returns the path of the first file of so many, without the name of the transaction.
      shards: the number of files; 0 if it isn't known.

    >>> names = FinalNames("", "", first=lambda n: f"out-0-of-{n}", shards=2)
    >>> names.excludes(attrs.evolve(names, shards=0)), names.excludes(attrs.evolve(names, shards=3))
    (True, False)
    """

    first: Callable[[int], str] = attrs.field(kw_only=True)
    shards: int = attrs.field(kw_only=True)

    def excludes(self, other: Claim) -> bool:
        if not isinstance(other, FinalNames):
            return False
        mine, theirs = self.shards or other.shards or 1, other.shards or self.shards or 1
        return _normalized(self.first(mine)) == _normalized(other.first(theirs))


def _normalized(path: str) -> str:
    """Return one name for all that lead to a local file: relative ones, and those behind symbolic links.

    >>> _normalized("file:///out/./part"), _normalized("s3://out//part")
    ('/out/part', 's3://out//part')
    """
    plain = local_path(path)
    return plain if "://" in plain else os.path.realpath(plain)
