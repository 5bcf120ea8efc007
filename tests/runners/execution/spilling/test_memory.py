"""Memory of Python objects: estimates, and the bound of a buffer that is measured rarely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.runners.execution.spilling.memory import MemoryBound, memory_of, memory_of_all
from penstock.sdk.elements.bundle import Bundle


@pytest.mark.parametrize(
    "things",
    [
        [],
        list(range(1000, 50_000)),
        [str(i) * 7 for i in range(10_000)],
        [[i, i + 1] for i in range(10_000)],
        [*([i] for i in range(5000)), list(range(100_000))],
        [{i: str(i)} for i in range(3000)],
        [set(range(n % 50)) for n in range(3000)],
        [(i, (float(i), str(i))) for i in range(10_000)],
        ["x" * 1_000_000, *map(str, range(3000))],
    ],
    ids=["nothing", "numbers", "texts", "lists", "one long list", "dicts", "sets", "tuples", "one long text"],
)
def test_an_estimate_is_near_the_memory(things: list[Any]) -> None:
    """Also where one thing is far larger than the others."""
    exact = memory_of(*things)
    assert exact / 2 <= memory_of_all(things) <= exact * 2


@pytest.mark.parametrize("make", [str, lambda i: {i: i}.items(), lambda i: str(i) if i % 2 else frozenset((i, "x"))])
def test_the_memory_of_a_few_things_is_exact(make: Callable[[int], Any]) -> None:
    """Of one type or several; what the garbage collector needs is included."""
    things = [make(1000 + i) for i in range(100)]
    assert memory_of(*things) == memory_of_all(things)


def filled(sizes: list[int], limit: int) -> tuple[int, int, int]:
    """Fill a buffer; return how often it was full, how often it was measured, and the most that it held."""
    held: list[int] = []
    measured = most = full = 0

    def measure() -> int:
        nonlocal measured
        measured += 1
        return sum(held)

    bound = MemoryBound(limit, measure)
    for part in bound.portions(Bundle(sizes)):
        held += part.values
        most = max(most, sum(held))
        if bound.added(len(part)):
            full += 1
            held.clear()
    return full, measured, most


def test_a_buffer_is_measured_rarely_and_full_near_its_limit() -> None:
    """A few times until its rate of growth is known, then when it should be full."""
    full, measured, most = filled([10] * 100_000, 100_000)
    assert 9 <= full <= 12
    assert 100_000 >= most
    assert 40 > measured


def test_a_buffer_that_is_emptied_before_it_is_full_is_measured_no_more() -> None:
    """Its elements are counted from the start each time."""
    sizes: list[int] = []
    held: list[int] = []
    bound = MemoryBound(1_000_000, lambda: sizes.append(len(held)) or 10.0 * len(held))
    for _ in range(1000):
        for _ in range(100):
            held.append(1)
            assert not bound.added(1)
        held.clear()
        bound.emptied()
    assert [1, 4, 16, 64] == sizes


def test_a_bundle_keeps_its_columns_in_its_portions() -> None:
    """Timestamps and windows go with their values; the first portion is one element."""
    bound = MemoryBound(1 << 20, lambda: 0)
    parts = []
    for part in bound.portions(Bundle(["a", "b", "c"], [1, 2, 3])):
        parts.append((part.values, part.timestamps))
        bound.added(len(part))
    assert [(["a"], [1]), (["b", "c"], [2, 3])] == parts


def test_a_process_that_needs_more_memory_than_ever_measures_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The elements have become larger than those that were measured."""
    peak = 0
    monkeypatch.setattr("penstock.runners.execution.spilling.memory._peak_memory", lambda: peak)
    held = 0
    bound = MemoryBound(1000, lambda: held)
    for held in range(100):  # noqa: B007
        assert not bound.added(1)
    held, peak = 2000, 1_000_000
    assert bound.added(1)
