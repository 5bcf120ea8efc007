"""What differs between two checkpoints: sizes of steps, keys added, removed and changed, timers, and source positions.

The entries of the first checkpoint are kept in a temporary database, as digests of 16 bytes.  SQLite keeps it on disk
when it grows, so the memory doesn't grow with the state.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from hashlib import blake2b
from typing import Any

import attrs
import msgspec

from ..streaming.snapshot_chunks import CHAINED, CLOCKS, POSITIONS
from .entries import StateEntry, StateReader
from .export import record_of
from .rendition import as_line, text_of
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

    def differs(self, how: str, key: str, most: int) -> None:
        """Count a difference."""
        setattr(self, how, getattr(self, how) + 1)
        keys = self.named.setdefault(how, [])
        if len(keys) < most and key not in keys:
            keys.append(key)


@attrs.frozen
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
    counts: dict[tuple[str, str], EntryCounts] = {}
    # "" is a temporary database.
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        database.execute("CREATE TABLE entry (id BLOB PRIMARY KEY, value BLOB, step, name, key) WITHOUT ROWID")
        database.execute("BEGIN")
        for step, name, key, id, value in _digests(before):
            counts.setdefault((step, name), EntryCounts()).before += 1
            database.execute("INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)", (id, value, step, name, key))
        for step, name, key, id, value in _digests(after):
            own = counts.setdefault((step, name), EntryCounts())
            own.after += 1
            found = database.execute("SELECT value FROM entry WHERE id = ?", (id,)).fetchone()
            if found is None:
                own.differs("added", key, named)
                continue
            if found[0] != value:
                own.differs("changed", key, named)
            database.execute("DELETE FROM entry WHERE id = ?", (id,))
        for step, name, key in database.execute("SELECT step, name, key FROM entry"):
            counts[step, name].differs("removed", key, named)
    return Comparison(
        {step: (sizes.get(step), sizes_after.get(step)) for step in dict.fromkeys([*sizes, *sizes_after])},
        dict(sorted(counts.items())),
        {
            place: (positions.get(place), positions_after.get(place))
            for place in dict.fromkeys([*positions, *positions_after])
            if positions.get(place) != positions_after.get(place)
        },
    )


def _digests(reader: StateReader) -> Iterator[tuple[str, str, str, bytes, bytes]]:
    """Yield the step, the name, the key, and digests of the identity and of the value of each entry."""
    for entry in reader.entries():
        record = record_of(entry)
        name, key = name_of_entry(entry), as_line(record["key"])
        tag = entry.timer.tag if entry.timer is not None else ""
        identity = as_line([entry.step, name, tag, key, record["window"]])
        yield entry.step, name, key[:_LONGEST_KEY], _digest(identity), _digest(as_line(record))


# The characters of a key that are shown.
_LONGEST_KEY = 80


def name_of_entry(entry: StateEntry) -> str:
    """Return the kind of an entry with its name, such as "state last"."""
    return f"{entry.kind} {entry.name}".rstrip()


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _sizes_and_positions(reader: StateReader) -> tuple[dict[str, int], Positions]:
    """Return the bytes of each step's state, and the positions of the sources."""
    sizes: dict[str, int] = {}
    positions: Positions = {}
    for part in reader.parts():
        for i, chunk in reader.raw_chunks(part):
            # Of other kinds only the newest file counts.
            if chunk.kind in CHAINED or i == len(part.files) - 1:
                if chunk.kind != CLOCKS and chunk.kind != POSITIONS:
                    sizes[chunk.label] = sizes.get(chunk.label, 0) + len(chunk.body)
                if chunk.kind == POSITIONS:
                    for position in reader.decoded(chunk, part).data:
                        positions[chunk.label, text_of(position.partition)] = _place(*position[1:])
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
                for partition, *place in position[-1]:
                    found[label, text_of(partition)] = _place(*place)
            else:
                found[label, ""] = text_of(position)
    return found


def _place(offset: Any, watermark: int, is_finished: bool) -> str:
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
