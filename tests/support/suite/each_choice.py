"""Each choice: a test of several parameters is run with all combinations on one runner, and with each value on others.

The others are those on Spark, where a job takes a second or more, and the variants of the local runner.  Elsewhere, on
the local runner, such a test has every combination.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from support.runners.local_variants import IN_SIMULATION, VARIANTS

# Parameters that choose the runner.
RUNNERS = ("runner_name", "streaming_runner")


@attrs.frozen
class Combination:
    """The values of a test's parameters, each by the position and the id of its `parametrize`."""

    item: pytest.Item
    values: frozenset[tuple[int, str]]


def each_choice(items: Iterable[pytest.Item], marker: str = "spark") -> list[pytest.Item]:
    """Return tests in their order, without those that have a marker or a variant, and no value that isn't tried anyway.

    A test all of whose combinations have the marker or a variant keeps them.
    """
    items = list(items)
    others = {item for item in items if item.get_closest_marker(marker) is not None or _has_variant(item)}
    elsewhere = {item.nodeid.partition("[")[0] for item in items if item not in others}
    by_test: dict[object, list[Combination]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        test = item.nodeid.partition("[")[0]
        if callspec is None or test not in elsewhere or item not in others:
            continue
        runner = _runner_of(callspec)
        values = frozenset((n, text) for n, text in enumerate(callspec._idlist) if text not in runner)
        by_test.setdefault((test, runner), []).append(Combination(item, values))
    redundant = {one.item for combinations in by_test.values() for one in _redundant(combinations)}
    return [item for item in items if item not in redundant]


def _runner_of(callspec: Any) -> tuple[str, ...]:
    return tuple(str(callspec.params[name]) for name in RUNNERS if name in callspec.params)


def _has_variant(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and not {*VARIANTS, *IN_SIMULATION}.isdisjoint(_runner_of(callspec))


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
