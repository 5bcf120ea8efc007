"""Each choice on Spark: a test of several parameters is run there with each value of each, not with all combinations.

A job on Spark takes a second or more.  It concerns tests that the local runner has, too, with every combination.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pytest

# Parameters that choose the runner.
RUNNERS = ("runner_name", "streaming_runner")


@attrs.frozen
class Combination:
    """The values of a test's parameters, each by the position and the id of its `parametrize`."""

    item: pytest.Item
    values: frozenset[tuple[int, str]]


def each_choice(items: Iterable[pytest.Item], marker: str = "spark") -> list[pytest.Item]:
    """Return tests in their order, without those that have a marker and no value that isn't tried anyway.

    A test all of whose combinations have the marker keeps them.
    """
    items = list(items)
    elsewhere = {item.nodeid.partition("[")[0] for item in items if item.get_closest_marker(marker) is None}
    by_test: dict[object, list[Combination]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        test = item.nodeid.partition("[")[0]
        if callspec is None or test not in elsewhere or item.get_closest_marker(marker) is None:
            continue
        runner = tuple(str(callspec.params[name]) for name in RUNNERS if name in callspec.params)
        values = frozenset((n, text) for n, text in enumerate(callspec._idlist) if text not in runner)
        by_test.setdefault((test, runner), []).append(Combination(item, values))
    redundant = {one.item for combinations in by_test.values() for one in _redundant(combinations)}
    return [item for item in items if item not in redundant]


def _redundant(combinations: list[Combination]) -> list[Combination]:
    tried: set[tuple[int, str]] = set()
    rest = []
    for one in combinations:
        # Those in which all is new, first: so few of them have every value.
        if one.values.isdisjoint(tried):
            tried |= one.values
        else:
            rest.append(one)
    redundant = []
    for one in rest:
        if one.values <= tried:
            redundant.append(one)
        tried |= one.values
    return redundant
