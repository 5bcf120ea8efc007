"""Prefixes: whether the visible rows of a simulated pipeline are the result of a prefix of each source partition."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from simulation.simulated_pipelines import TRANSFERS, entries_of, total_of

from penstock.runners.local.simulation.run import PrefixRule
from penstock.runners.local.simulation.sink import Row

Rows = Mapping[Row, int]


def has_whole_windows(label: str, visible: Rows, expected: Rows) -> bool:
    """Return True if each window with a row has all of its rows: those of all keys follow from one watermark.

    >>> expected = {(("a", 1), 9, "w"): 1, (("b", 1), 9, "w"): 1, (("a", 1), 19, "v"): 1}
    >>> has_whole_windows("sums", {(("a", 1), 19, "v"): 1}, expected)
    True
    >>> has_whole_windows("sums", {(("a", 1), 9, "w"): 1, (("a", 1), 19, "v"): 1}, expected)
    False
    """
    found, whole = _by_window(visible), _by_window(expected)
    return all(rows == whole[window] for window, rows in found.items())


def _by_window(rows: Rows) -> dict[Any, Counter[Row]]:
    found: dict[Any, Counter[Row]] = defaultdict(Counter)
    for row, count in rows.items():
        if count:
            found[row[2]][row] += count  # type: ignore[index]
    return found


def has_prefixes_as_they_are(label: str, visible: Rows, expected: Rows) -> bool:
    """Return True if a table of elements as they are has the first ones of each partition; see `script`.

    >>> has_prefixes_as_they_are("As it is", {(("a", 0), 3, ()): 1, (("a", 1), 3, ()): 1, (("c", 200), 3, ()): 1}, {})
    True
    >>> has_prefixes_as_they_are("As it is", {(("a", 1), 3, ()): 1}, {})
    False
    """
    if "As it is" not in label:
        return has_whole_windows(label, visible, expected)
    numbers: dict[int, list[int]] = defaultdict(list)
    for ((_, number), *_), count in visible.items():  # type: ignore[misc]
        numbers[number // 100] += [number % 100] * count
    return all(sorted(own) == list(range(len(own))) for own in numbers.values())


def are_sums_of_transfers(label: str, visible: Rows, expected: Rows) -> bool:
    """Return True if all sums are those of the transfers that the numbers of elements name.

    >>> are_sums_of_transfers("Totals", {}, {})
    True
    >>> are_sums_of_transfers("Totals", {(("ab", 1), 3, ()): 1}, {})
    False
    """
    found = [value for (value, *_), count in visible.items() for _ in range(count)]  # type: ignore[misc]
    sums: Counter[str] = Counter()
    shown = dict(found)
    for partition, transfers in TRANSFERS.items():
        for transfer in transfers[: shown.get(partition, 0)]:
            for key, amount in entries_of(transfer):
                sums[total_of(key) if "Totals" in label else key] += amount
    return len(shown) == len(found) and shown == sums


# Those of the simulated pipelines whose results tell it.  Those of the others depend on when panes and timers fire, and
# a commit of a loop has a part of what follows from an element.
PREFIXES: dict[str, PrefixRule] = {
    "windowed_sums": has_whole_windows,
    "join": has_whole_windows,
    "two_sinks": has_prefixes_as_they_are,
    "transfers": are_sums_of_transfers,
}
