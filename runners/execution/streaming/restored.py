"""The log line of a restart: the checkpoint, its age, the offsets of its sources, and its parallelism.

>>> shown_offsets({"Read": [("a.txt", 120), ("b.txt", 7)]})
'Read: a.txt at 120, b.txt at 7'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....sdk.redaction import redacted
from ..user_errors import shortened

# The number of partitions of a source that the log names.
NAMED = 10


def shown_positions(positions: Iterable[tuple[Any, Any, bool]], named: int = NAMED) -> list[tuple[str, str]]:
    """Return texts for a source's partitions and their offsets, of the first `named` of them.

    Args:
      positions: partitions, offsets, and whether the partition is finished.
    """
    shown = []
    for (partition, offset, is_finished), _ in zip(positions, range(named), strict=False):
        where = "its end" if is_finished else "its beginning" if offset is None else shortened(offset)
        shown.append((redacted(shortened(partition)), redacted(where)))
    return shown


def shown_offsets(offsets: Mapping[str, Sequence[Sequence[Any]]]) -> str:
    """Return the offsets of all sources as one text."""
    return "; ".join(
        f"{label}: {', '.join(f'{partition} at {offset}' for partition, offset in own[:NAMED])}"
        + (", ..." if len(own) >= NAMED else "")
        for label, own in offsets.items()
        if own
    )


def restored_line(
    directory: str, what: str, age_micros: int, parallelism: int, before: int, offsets: Mapping[str, Sequence[Any]]
) -> str:
    """Return the line that a start logs when it resumes from a checkpoint.

    >>> restored_line("/kept", "checkpoint 14", 2_500_000, 2, 4, {"Read": [("0", "120")]})
    '/kept: resumes from checkpoint 14, which is 2.5 s old, with parallelism 2 (it was taken with 4); Read: 0 at 120'
    """
    age = f"is {age_micros / 1_000_000:.1f} s old" if age_micros >= 0 else "was taken later than the wall clock's time"
    rescaled = "" if before == parallelism else f" (it was taken with {before})"
    line = f"{directory}: resumes from {what}, which {age}, with parallelism {parallelism}{rescaled}"
    return "; ".join(filter(None, [line, shown_offsets(offsets)]))
