"""Flags among arguments, and the known flag that is nearest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flags_in(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments that are flags for argparse, up to a `--`, without their values."""
    for argument in arguments:
        if argument == "--":
            return
        flag = argument.partition("=")[0]
        is_number = flag[1:2].isdigit() or flag[1:2] == "."
        if flag.startswith("-") and len(flag) > 1 and " " not in flag and not is_number:
            yield flag


def flags_with_values(arguments: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of flags: a flag before another one, or the last one, is True."""
    for argument, following in zip(arguments, [*arguments[1:], "-"]):
        if argument == "--":
            return
        name, is_pair, value = argument.partition("=")
        if is_pair and name.startswith("-"):
            yield name.lstrip("-"), value
        elif name.startswith("--") or (name.startswith("-") and following.startswith("-")):
            yield name.lstrip("-"), True if following.startswith("-") else following


# Flags that have another name now.
_RENAMED = {"worker_start": "start_method", "shard_memory": "state_memory"}


def nearest(name: str, known: list[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar, or the present one of a renamed flag, or None.

    Args:
      cutoff: the least similarity, between 0 and 1.
    """
    bare = name.lstrip("-")
    renamed = name[: len(name) - len(bare)] + _RENAMED.get(bare.replace("-", "_"), bare)
    if renamed != name and renamed in known:
        return renamed
    # A longer name that starts with the given one is nearer than a similar name.
    longer = [one for one in known if one.startswith(name)]
    if longer and cutoff < 0.8:
        return longer[0]
    import difflib

    found = difflib.get_close_matches(name.replace("-", "_"), [one.replace("-", "_") for one in known], 1, cutoff)
    return next((one for one in known if found and one.replace("-", "_") == found[0]), None)


def did_you_mean(name: str, known: list[str]) -> str | None:
    """Return a question that suggests the nearest name, or None.

    >>> did_you_mean("--runer", ["--runner", "--streaming"])
    'did you mean --runner?'
    """
    found = nearest(name, known)
    return f"did you mean {found}?" if found else None
