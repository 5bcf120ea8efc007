"""What differs between two checkpoints: sizes of steps, keys added, removed and changed, timers, and source positions.

The entries are compared as digests, in a temporary file, so the memory doesn't grow with the state.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from ....frozen import frozen
from ....sdk.elements.hash_partitions import PARTITIONS
from ..streaming.snapshot_chunks import CHAINED, CLOCKS, POSITIONS
from .entries import StateReader
from .entry_join import digests, partitioned, shown_key
from .json_values import text_of
from .stored_objects import loads_plain

# The part of a micro-batch's checkpoint that has the positions, and the field of its record.
_DRIVER, _POSITIONS = "driver", 6

# A position by source and partition.
Positions = dict[tuple[str, str], str]


@attrs.define
class EntryCounts:
    """The entries of one kind of state of a step: state cells of a name, windows, or timers of a family.

    Attributes:
      before, after: the number of entries in each checkpoint.
      added, removed, changed: how many differ.
      named: by "added", "removed" and "changed", the first keys.
    """

    before: int = 0
    after: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    named: dict[str, list[str]] = attrs.field(factory=dict)


@frozen
class Comparison:
    """The differences between two checkpoints.

    Attributes:
      steps: by label, the bytes of each step before and after; None where it has no state.
      entries: by label and name, such as "state last", the differing entries.
      positions: by source and partition, the positions that differ; None where there is none.
    """

    steps: dict[str, tuple[int | None, int | None]]
    entries: dict[tuple[str, str], EntryCounts]
    positions: dict[tuple[str, str], tuple[str | None, str | None]]

    @property
    def is_empty(self) -> bool:
        """True if the state and the positions are equal."""
        sizes = [before is None or after is None for before, after in self.steps.values()]
        counts = [one.added or one.removed or one.changed for one in self.entries.values()]
        return not (any(sizes) or any(counts) or self.positions)


def compare(before: StateReader, after: StateReader, named: int = 5) -> Comparison:
    """Return the differences between two checkpoints.

    Args:
      named: the number of keys to name of each difference.
    """
    sizes, positions = _sizes_and_positions(before)
    sizes_after, positions_after = _sizes_and_positions(after)
    kinds: dict[tuple[str, str], _Differences] = {}
    # Of a side, the digests, with the number of the kind of entry, and of the entry.
    with partitioned() as old, partitioned() as new:
        for side, reader in ((old, before), (new, after)):
            for index, (step, name, identity, value, key) in enumerate(digests(reader)):
                kind = kinds.get((step, name))
                if kind is None:
                    kind = kinds[step, name] = _Differences(len(kinds), named)
                side.add(identity[0], (identity, value, kind.number, index, key))
        numbered = list(kinds.values())
        for number in range(PARTITIONS):
            _join(old.of(number), new.of(number), numbered)
    counts = {index: kind.counts() for index, kind in kinds.items()}
    return Comparison(
        {step: (sizes.get(step), sizes_after.get(step)) for step in dict.fromkeys([*sizes, *sizes_after])},
        dict(sorted(counts.items())),
        {
            index: (positions.get(index), positions_after.get(index))
            for index in dict.fromkeys([*positions, *positions_after])
            if positions.get(index) != positions_after.get(index)
        },
    )


def _join(old: Iterable[Any], new: Iterable[Any], kinds: Sequence[_Differences]) -> None:
    """Count the entries of a partition, and what differs."""
    known = _by_identity(old)
    for _, kind, _, _ in known.values():
        kinds[kind].entries.before += 1
    for identity, (values, kind, index, key) in _by_identity(new).items():
        own = kinds[kind]
        own.entries.after += 1
        found = known.pop(identity, None)
        if found is None:
            own.differs("added", index, key)
        elif found[0] != values:
            own.differs("changed", index, key)
    for _, kind, index, key in known.values():
        kinds[kind].differs("removed", index, key)


def _by_identity(side: Iterable[Any]) -> dict[bytes, tuple[list[bytes], int, int, tuple[Any, bool]]]:
    """Return the digests of values, the kind, the index and the key of each entry; a window may be there in parts."""
    found: dict[bytes, tuple[list[bytes], int, int, tuple[Any, bool]]] = {}
    for identity, value, *rest in side:
        insort(found.setdefault(identity, ([], *rest))[0], value)
    return found


class _Differences:
    """What differs of one kind of entry.

    Args:
      number: of the kind.
      most: the number of keys to name.
    """

    def __init__(self, number: int, most: int) -> None:
        self.number = number
        self.entries = EntryCounts()
        self._most = most
        # By "added", "removed" and "changed", the first keys, each with its index among the entries.
        self._first: dict[str, list[tuple[int, str]]] = {}

    def differs(self, how: str, index: int, key: tuple[Any, bool]) -> None:
        """Count a difference."""
        setattr(self.entries, how, getattr(self.entries, how) + 1)
        first = self._first.setdefault(how, [])
        if len(first) >= self._most and (not first or index > first[-1][0]):
            return
        text = shown_key(key)
        if any(known == text and other < index for other, known in first):
            return
        first[:] = [each for each in first if each[1] != text]
        insort(first, (index, text))
        del first[self._most :]

    def counts(self) -> EntryCounts:
        """Return the counts, with the first keys."""
        self.entries.named.update({how: [key for _, key in first] for how, first in sorted(self._first.items())})
        return self.entries


def _sizes_and_positions(reader: StateReader) -> tuple[dict[str, int], Positions]:
    """Return the bytes of each step's state, and the positions of the sources."""
    sizes: dict[str, int] = {}
    positions: Positions = {}
    for part in reader.parts():
        for i, chunk in reader.raw_chunks(part):
            # Of other kinds only the newest file counts.
            if chunk.kind in CHAINED or i == len(part.files) - 1:
                if chunk.kind != CLOCKS and chunk.kind != POSITIONS:
                    sizes[chunk.label] = sizes.get(chunk.label, 0) + chunk.size
                if chunk.kind == POSITIONS:
                    for position in reader.decoded(chunk, part).data:
                        positions[chunk.label, text_of(position.partition)] = _position(*position[1:])
        for table in reader.table_chunks(part):
            sizes[table.label] = sizes.get(table.label, 0) + table.size
    positions.update(_of_driver(reader))
    return sizes, positions


def _of_driver(reader: StateReader) -> Positions:
    """Return the positions in a micro-batch's checkpoint."""
    found: Positions = {}
    for part in reader.checkpoint.parts:
        if part.name != _DRIVER:
            continue
        ((_, records),) = reader.store.read_part(part)
        fields = msgspec.msgpack.decode(b"".join(records), type=list[Any])
        sources: Mapping[str, Any] = loads_plain(fields[_POSITIONS])["sources"]
        for label, position in sources.items():
            if isinstance(position, tuple) and isinstance(position[-1], list):
                for partition, *split in position[-1]:
                    found[label, text_of(partition)] = _position(*split)
            else:
                found[label, ""] = text_of(position)
    return found


def _position(offset: Any, watermark: int, is_finished: bool) -> str:
    return "its end" if is_finished else text_of(offset)


def described(comparison: Comparison) -> list[str]:
    """Return the differences as lines of text."""
    lines: list[str] = []
    for step, (before, after) in comparison.steps.items():
        own = [(name, one) for (label, name), one in comparison.entries.items() if label == step]
        differing = [(name, one) for name, one in own if one.added or one.removed or one.changed]
        if not differing and before == after:
            continue
        lines.append(f"step {step}: {_size(before)} -> {_size(after)}")
        for name, one in differing:
            parts = [f"{getattr(one, how)} {how}" for how in ("added", "removed", "changed") if getattr(one, how)]
            lines.append(f"  {name}: {one.before} -> {one.after} entries, {', '.join(parts)}")
            lines += [f"    {how}: {', '.join(keys)}" for how, keys in one.named.items()]
    for (source, partition), (was, now) in comparison.positions.items():
        where = f"{source}: {partition}" if partition else source
        lines.append(f"source {where} at {was or 'no position'} -> {now or 'no position'}")
    return lines or ["no differences"]


def _size(size: int | None) -> str:
    return "no state" if size is None else f"{size:,} bytes"


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return the differences as data of JSON."""
    return {
        "steps": {step: {"bytes": list(sizes)} for step, sizes in comparison.steps.items()},
        "entries": [
            {"step": step, "name": name, **attrs.asdict(one)} for (step, name), one in comparison.entries.items()
        ],
        "sources": [
            {"source": source, "partition": partition, "before": was, "after": now}
            for (source, partition), (was, now) in comparison.positions.items()
        ],
    }
