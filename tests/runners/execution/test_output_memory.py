"""OutputMemory: exactly what was emitted is retracted."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from penstock.runners.execution.output_memory import OutputMemory
from penstock.sdk.errors import PenstockError
from penstock.windowing import IntervalWindow

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
    """Nor can what has been taken back already."""
    memory, numbers = OutputMemory(), Numbers()
    memory(1, "a", 0, (), numbers), memory(-1, "a", 0, (), numbers)
    with pytest.raises(PenstockError, match="the element 'a' is retracted, but never came"):
        memory(-1, "a", 0, (), numbers)


def test_an_element_whose_outputs_failed_is_not_remembered() -> None:
    """What the DoFn raised is raised."""
    memory = OutputMemory()
    with pytest.raises(ZeroDivisionError):
        memory(1, "a", 0, (), lambda: [1 // 0])
    with pytest.raises(PenstockError, match="never came"):
        memory(-1, "a", 0, (), Numbers())
