"""plain_results: what a function's bytecode says of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.execution.stages import StageAlone

import penstock as beam
from penstock.runners.execution.kernels.plain_results import returns_plain
from penstock.sdk.elements.bundle import Bundle
from penstock.windowing import TimestampedValue


def incremented(x: int) -> int:
    """A statement before the result makes no difference."""
    y = x * 2
    return y + 1


def by_a_call(x: Any) -> int:
    return len(str(x))


def the_element_or_something_new(x: int) -> int:
    if x > 3:
        x = x - 3
    return x


def generated(x: int) -> Iterator[int]:
    yield x + 1


def sometimes_special(x: int) -> Any:
    if x > 1:
        return TimestampedValue(x, 0)
    return x + 1


def with_a_default(x: int) -> Any:
    if x:
        return x + 1
    return None


# Ways to put something special into a variable.


def special() -> Any:
    return TimestampedValue(0, 0)


def unpacked(x: Any) -> Any:
    if x:
        x, _ = special(), 1
    return x


def unpacked_in_part(x: Any) -> Any:
    (_, x), _ = (1, special()), 2
    return x


def stored_twice(x: Any) -> Any:
    x = _ = special()
    return x


def looped(x: Any) -> Any:
    for x in [special()]:  # noqa: B007
        pass
    return x


def assigned_within(x: Any) -> Any:
    print(x := special())
    return x


def matched(x: Any) -> Any:
    match [special()]:
        case [x]:
            pass
    return x


def stored_by_another(x: Any) -> Any:
    def other() -> None:
        nonlocal x
        x = special()

    other()
    return x


def shadowed(x: Any) -> Any:
    abs = lambda x: special()
    return abs(x)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 1,
        lambda x: -x,
        lambda x: not x,
        lambda x: x < 1,
        lambda x: x in (1, 2),
        lambda x: x is None,
        lambda x: (x, 1),
        lambda x: [x],
        lambda x: {x},
        lambda x: {x: 1},
        lambda x: f"{x} and {x}",
        lambda x: abs(x),
        lambda x: list(x),
        lambda x: x,
        incremented,
        by_a_call,
        the_element_or_something_new,
    ],
)
def test_a_new_value_by_an_operator_a_display_or_a_built_in_is_plain(fn: Callable[[Any], Any]) -> None:
    """Such a result can't be a TimestampedValue, and nor is the element itself."""
    assert returns_plain(fn)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.value,
        lambda x: x[0],
        lambda x: TimestampedValue(x, 0),
        lambda x: x + 1 if x else x,
        lambda x: x or x + 1,
        len,
        str.upper,
        generated,
        sometimes_special,
        with_a_default,
        TimestampedValue,
        unpacked,
        unpacked_in_part,
        stored_twice,
        looped,
        assigned_within,
        matched,
        stored_by_another,
        shadowed,
        lambda x, y: y,
        lambda x=1: x,
        lambda x: x.abs(x),
        lambda x: TimestampedValue(len(str(x)), 0),
        lambda x: TimestampedValue(abs(x), int(x)),
        lambda x: dict.get({1: special()}, x),
        lambda x: abs(x) if x else special(),
        lambda x: special()(abs(x)),
        lambda x: x and special(),
    ],
)
def test_what_might_be_anything_is_not_plain(fn: Callable[[Any], Any]) -> None:
    """Items, attributes, results of most calls, other arguments, and functions without bytecode."""
    assert not returns_plain(fn)


@pytest.mark.parametrize("fn", [lambda x: x + 1, sometimes_special, with_a_default, lambda x: TimestampedValue(x, 7)])
def test_the_look_that_is_saved_makes_no_difference(fn: Callable[[Any], Any]) -> None:
    """Special results are unwrapped, also after a wrong guess about the function."""
    results = [fn(x) for x in range(4)]
    expected = [r.value if type(r) is TimestampedValue else r for r in results]
    stage = StageAlone(beam.Map(fn)).process(Bundle([0, 1, 2, 3]))
    assert sorted(expected, key=repr) == sorted(stage.values(), key=repr)
