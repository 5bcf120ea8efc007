"""Copies of what users wrote, one for each worker."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.sdk.dofn.dofn import FilterDoFn, MapDoFn
from penstock.sdk.graph import SideInputArgument
from penstock.sdk.user_code import serialization
from penstock.sdk.user_code.serialization import Serialized


class Holding:
    """An object of the user's."""

    def __init__(self) -> None:
        self.seen: list[int] = []


def twice(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize(
    "fn", [lambda x, y: x, lambda x, y: twice(x), lambda x, y, factor=2: x, lambda x, y, more=Holding(): x, str.join]
)
@pytest.mark.parametrize("arguments", [(), (1, "a", (None, b"b"), SideInputArgument(0)), ({},), (Holding(),)])
def test_each_copy_has_the_type_and_the_parts_of_the_object(fn: Any, arguments: tuple[Any, ...]) -> None:
    """With and without pickling."""
    copy, args, kwargs = Serialized((MapDoFn(fn), arguments, {}), "Map").frozen().load()

    assert MapDoFn is type(copy)
    assert fn.__name__ == copy.fn.__name__
    assert [type(argument) for argument in arguments] == [type(argument) for argument in args]
    assert {} == kwargs


def test_what_is_put_into_a_copy_is_in_no_other() -> None:
    """A dict that is empty at first may be a function's memory."""
    memory: dict[str, int] = {}
    frozen = Serialized((FilterDoFn(lambda x, memory: x), (memory,), {}), "Filter").frozen()
    first, second = frozen.load(), frozen.load()
    first[1][0]["a"] = 1
    first[0].label = "first"

    assert {} == memory
    assert ((frozen.object[1]), {}) == (second[1], second[2])
    assert ["fn"] == list(vars(second[0]))


def test_what_changes_after_the_run_has_begun_is_in_no_copy() -> None:
    """Earlier changes are in all copies."""
    dofn = MapDoFn(lambda x: 1)
    serialized: Serialized[Any] = Serialized(dofn, "Map")
    dofn.fn = lambda x: 2
    frozen = serialized.frozen()
    dofn.fn = lambda x: 3

    assert 2 == frozen.load().fn(0)


def test_a_function_that_comes_to_refer_to_something_is_copied_with_it() -> None:
    """Its module defined that after the transform was applied."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec("fn = lambda x: added_later + x", variables)
    serialized: Serialized[Any] = Serialized(MapDoFn(variables["fn"]), "Map")
    variables["added_later"] = 1
    frozen = serialized.frozen()
    variables["added_later"] = 2

    assert 11 == frozen.load().fn(10)


def test_a_function_that_refers_to_nothing_is_not_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long pipelines have mostly such functions, and pickling them takes ten times as long as copying."""
    pickled: list[Any] = []
    monkeypatch.setattr(serialization, "pickled", lambda obj: pickled.append(obj) or b"")

    for fn in (lambda x: x + 1, lambda x: [x]):
        Serialized((MapDoFn(fn), (1,), {}), "Map").frozen()
    assert [] == pickled
    Serialized((MapDoFn(lambda x: twice(x)), (1,), {}), "Map").frozen()
    assert 2 == len(pickled)
