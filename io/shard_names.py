"""The names of a sharded output's files."""

from __future__ import annotations

import re

DEFAULT_SHARD_NAME_TEMPLATE = "-SSSSS-of-NNNNN"

_LETTERS = re.compile(r"S+|N+")


def shard_name(template: str, shard: int, shards: int) -> str:
    """The part of a file's name that says which shard it is.

    A run of `S` is replaced by the shard's number and a run of `N` by how many there are,
    padded with zeros to the length of the run.

    >>> shard_name("-SSSSS-of-NNNNN", 3, 12), shard_name("_SS", 3, 12), shard_name("", 0, 1)
    ('-00003-of-00012', '_03', '')
    """
    return _LETTERS.sub(lambda run: f"{shard if run[0][0] == 'S' else shards:0{len(run[0])}d}", template)


def tells_shards_apart(template: str) -> bool:
    """Whether every shard gets a name of its own.

    >>> tells_shards_apart("-SSSSS-of-NNNNN"), tells_shards_apart("-all")
    (True, False)
    """
    return "S" in template
