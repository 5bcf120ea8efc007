"""OutputMemory: exactly what was emitted is retracted."""

from __future__ import annotations

import pickle
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as beam
from penstock.runners.execution.stages.recorded_outputs import OutputMemory
from penstock.sdk.errors import PenstockError
from penstock.triggers import AccumulationMode, AfterCount, Repeatedly
from penstock.windowing import FixedWindows, IntervalWindow

WINDOWS = (IntervalWindow(0, 10),)


class Numbers:
    """Another output whenever it is asked."""

    def __init__(self) -> None:
        self.next = count(1)

    def __call__(self) -> list[int]:
        return [next(self.next)]


@pytest.mark.parametrize("value", ["a", ["a"], {"a": [1]}])
def test_an_element_has_its_own_outputs_taken_back(value: Any) -> None:
    """Found by value, with a hash or without; the DoFn isn't asked again."""
    memory, numbers = OutputMemory(), Numbers()
    assert ([1], [2]) == (memory(1, value, 0, WINDOWS, numbers), memory(1, "other", 0, WINDOWS, numbers))
    assert [1] == memory(-1, value, 0, WINDOWS, numbers)
    assert [3] == memory(1, "another", 0, WINDOWS, numbers)


def test_elements_of_other_times_and_windows_are_others() -> None:
    """Though they are equal."""
    memory, numbers = OutputMemory(), Numbers()
    places = [(0, WINDOWS), (1, WINDOWS), (0, (IntervalWindow(10, 20),))]
    for micros, windows in places:
        memory(1, "a", micros, windows, numbers)
    assert [[1], [2], [3]] == [memory(-1, "a", micros, windows, numbers) for micros, windows in places]


def test_of_equal_elements_each_has_its_outputs_taken_back_once() -> None:
    """The last one's first."""
    memory, numbers = OutputMemory(), Numbers()
    memory(1, "a", 0, WINDOWS, numbers), memory(1, "a", 0, WINDOWS, numbers)
    assert [[2], [1]] == [memory(-1, "a", 0, WINDOWS, numbers), memory(-1, "a", 0, WINDOWS, numbers)]


@pytest.mark.parametrize("produced", [None, [], iter(())])
def test_no_outputs_are_remembered_as_none(produced: Any) -> None:
    """The element came, and may be taken back."""
    memory = OutputMemory()
    assert ([], []) == (memory(1, "a", 0, (), lambda: produced), memory(-1, "a", 0, (), Numbers()))


def test_what_never_came_can_not_be_taken_back() -> None:
    """Neither can an element that has been retracted already."""
    memory, numbers = OutputMemory(), Numbers()
    memory(1, "a", 0, (), numbers), memory(-1, "a", 0, (), numbers)
    with pytest.raises(PenstockError, match="the element 'a' is retracted, but was never received"):
        memory(-1, "a", 0, (), numbers)


def test_an_element_whose_outputs_failed_is_not_remembered() -> None:
    """The exception of the DoFn is raised."""
    memory = OutputMemory()
    with pytest.raises(ZeroDivisionError):
        memory(1, "a", 0, (), lambda: [1 // 0])
    with pytest.raises(PenstockError, match="was never received"):
        memory(-1, "a", 0, (), Numbers())


# --- Snapshots


class Opaque:
    """Equal to nothing but itself, and so not to what it is after a snapshot."""

    def __init__(self, name: str) -> None:
        self.name = name


values = st.sampled_from([1, "a", (1, float("nan")), [1], Opaque("a"), Opaque("b")])
memories = st.lists(
    st.one_of(st.tuples(st.sampled_from([1, -1]), st.integers(0, 1), values), st.sampled_from(["cut", "restore"])),
    max_size=40,
)


@pytest.mark.parametrize("parts", [1, 2])
@given(script=memories)
def test_outputs_of_a_chain_are_those_that_may_be_retracted(parts: int, script: list[Any]) -> None:
    """Where there were two subtasks they had the same numbers, and everything of both is known to both."""
    numbers = count()
    lives = [OutputMemory() for _ in range(parts)]
    chains: list[list[Any]] = [[] for _ in lives]

    def cut_all() -> None:
        for live, chain in zip(lives, chains, strict=True):
            chain.append(pickle.loads(pickle.dumps(live.changes() if chain else live.snapshot())))

    for step in script:
        if step == "cut":
            cut_all()
        elif step == "restore":
            cut_all()
            for index, chain in enumerate(chains):
                lives[index] = OutputMemory()
                lives[index].restore([chain])
        else:
            sign, part, value = step
            try:
                lives[part % parts](sign, value, 0, (), lambda: [next(numbers)])
            except PenstockError:
                assert sign < 0
    cut_all()
    restored = OutputMemory()
    restored.restore(chains)
    kept = [sorted(outputs for _, outputs in memory.snapshot().added.values()) for memory in [*lives, restored]]
    assert sorted(outputs for own in kept[:-1] for outputs in own) == kept[-1]
    # And each is found by its element, the last one of equal ones first.
    for value in (1, "a", [1]):
        for live in reversed(lives):
            while (outputs := taken(live, value)) is not None:
                assert outputs == taken(restored, value)


def taken(memory: OutputMemory, value: Any) -> list[Any] | None:
    """The outputs of an element, which is retracted; None if there are none."""
    try:
        return memory(-1, value, 0, (), list)
    except PenstockError:
        return None


def test_of_several_memories_everything_is_a_change() -> None:
    """Outputs that have come together have other numbers than they had."""
    parts, together = [OutputMemory(), OutputMemory()], OutputMemory()
    for memory in parts:
        memory(1, "a", 0, (), lambda: [0])
    together.restore([[memory.snapshot()] for memory in parts])
    assert (2, True, 2) == (together.number_changed, (found := together.changes()).is_all, len(found.added))


def test_what_says_everything_takes_the_place_of_what_came_before_it() -> None:
    """As where outputs that have come together were written behind what they had been restored from."""
    memory = OutputMemory()
    memory(1, "a", 0, (), lambda: [1]), memory(1, "b", 0, (), lambda: [2])
    chain = [pickle.loads(pickle.dumps(memory.snapshot()))]
    memory(-1, "a", 0, (), list)
    restored = OutputMemory()
    restored.restore([[*chain, memory.snapshot()]])
    assert (1, [2]) == (len(restored), restored(-1, "b", 0, (), list))


# --- Expiry


def test_outputs_are_forgotten_when_their_element_can_not_be_retracted() -> None:
    """At the end of its window and the time after it; others stay, as does what arrives for a window again."""
    memory, later = OutputMemory(5_000_000), (IntervalWindow(10, 20),)
    for value, windows in ((1, WINDOWS), (2, WINDOWS), (3, later)):
        memory(1, value, 0, windows, lambda: ["x"])
    memory.snapshot()
    memory(-1, 1, 0, WINDOWS, list), memory(1, 4, 0, WINDOWS, lambda: ["y"])
    memory.expire(15_000_000)
    assert 3 == len(memory)
    memory.expire(15_000_001)
    assert (1, [1], 0) == (len(memory), [len(memory.changes().removed) - 1], len(memory.changes().added))
    with pytest.raises(PenstockError, match="was never received"):
        memory(-1, 2, 0, WINDOWS, list)
    assert ["x"] == memory(-1, 3, 0, later, list)


def test_without_a_limit_nothing_is_forgotten() -> None:
    """Behind other windows than those of the grouping."""
    memory = OutputMemory()
    memory(1, 1, 0, WINDOWS, lambda: ["x"])
    memory.expire(1 << 60)
    assert ["x"] == memory(-1, 1, 0, WINDOWS, list)


def test_records_of_all_subtasks_are_there_once_after_each_restart() -> None:
    """Each subtask restores those of all, and would have them from each at the next restart."""
    parts = [OutputMemory(), OutputMemory()]
    for part, memory in enumerate(parts):
        memory(1, part, 0, WINDOWS, lambda: ["x"])
    for _ in range(3):
        chains = [[memory.snapshot()] for memory in parts]
        parts = [OutputMemory(), OutputMemory()]
        for memory in parts:
            memory.restore(chains)
    assert [2, 2] == list(map(len, parts))


def test_elements_can_be_retracted_until_the_window_of_their_grouping_has_expired() -> None:
    """Of several groupings the last one; in windows of their own for ever."""

    def sums(lateness: int, step: str) -> Any:
        trigger, mode = Repeatedly(AfterCount(1)), AccumulationMode.RETRACTING
        windowing = beam.WindowInto(
            FixedWindows(10), trigger=trigger, accumulation_mode=mode, allowed_lateness=lateness
        )
        return (
            p
            | f"Create {step}" >> beam.Create([("a", 1)])
            | step >> windowing
            | f"Sum {step}" >> beam.CombinePerKey(sum)
        )

    p = beam.Pipeline()
    soon, late = sums(0, "soon") | beam.Map(str), sums(5, "late") | "Text" >> beam.Map(str)
    elsewhere = late | beam.WindowInto(FixedWindows(10), accumulation_mode=AccumulationMode.RETRACTING)
    never = p | "Never" >> beam.Create(["x"]) | "Windows" >> beam.WindowInto(FixedWindows(10))
    found = [pcoll.retractable_for for pcoll in (soon, late, elsewhere, (soon, late, never) | beam.Flatten())]
    assert [0, 5, None, 5] == found
    assert 5 == (late | beam.Reshuffle()).retractable_for
    assert ((late, elsewhere) | "Both" >> beam.Flatten()).retractable_for is None
