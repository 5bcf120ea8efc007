"""plain_methods: what the bytecode of a stateful DoFn's method shows that it doesn't do."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stateful_work import Work

import penstock as beam
from penstock.runners.execution.stages.plain_results import yields_plain
from penstock.runners.execution.state.plain_methods import calls_methods_only, yields_once
from penstock.sdk.userstate import CombiningValueStateSpec, ReadModifyWriteStateSpec
from penstock.windowing import TimestampedValue

LAST = ReadModifyWriteStateSpec("last")
KIND = LAST.runtime
STATE: Any = beam.DoFn.StateParam(LAST)
ALL: Any = beam.DoFn.StateParam(CombiningValueStateSpec("all", sum))


class Seeing:
    """Ends an error in its block, and takes the state from the variables of the block."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.seen.append(traceback.tb_frame.f_locals["last"].read)
        return True


class Plain(beam.DoFn):
    """Methods that use their state in calls of its methods only."""

    def sums(self, element: Any, last: Any = STATE) -> Any:
        key, value = element
        value += last.read() or 0
        last.write(value)
        yield key, value

    def branches(self, element: Any, last: Any = STATE) -> Any:
        if element[1] > 3:
            last.clear()
        while element[1] < (last.read() or 0):
            last.write(0)
        return [last.read()]

    def not_used(self, element: Any, last: Any = STATE) -> Any:
        return [element]

    def by_keyword(self, element: Any, *, last: Any = STATE) -> Any:
        return [last.read()]


class Keeping(beam.DoFn):
    """Methods that output a function that reads their state after the call."""

    def the_state(self, element: Any, last: Any = STATE) -> Any:
        return [last.read]

    def an_attribute(self, element: Any, last: Any = STATE) -> Any:
        self.last = last
        return [self.last.read]

    def an_alias(self, element: Any, last: Any = STATE) -> Any:
        other = last
        return [other.read]

    def a_closure(self, element: Any, last: Any = STATE) -> Any:
        return [lambda: last.read()]

    def a_default(self, element: Any, last: Any = STATE) -> Any:
        return [lambda state=last: state.read()]

    def an_argument(self, element: Any, last: Any = STATE) -> Any:
        return [functools.partial(ReadModifyWriteStateSpec("last").runtime.read, last)]

    def all_variables(self, element: Any, last: Any = STATE) -> Any:
        return [locals()["last"].read]

    def a_frame(self, element: Any, last: Any = STATE) -> Any:
        frame = inspect.currentframe()
        assert frame is not None
        return [frame.f_locals["last"].read]

    def the_frames_of_all_calls(self, element: Any, last: Any = STATE) -> Any:
        return [inspect.stack()[0].frame.f_locals["last"].read]

    def a_frame_from_within(self, element: Any, last: Any = STATE) -> Any:
        return [(lambda: sys._getframe(1).f_locals["last"].read)()]

    def a_loop(self, element: Any, last: Any = STATE) -> Any:
        for state in (last,):
            return [state.read]

    def an_expression(self, element: Any, last: Any = STATE) -> Any:
        return [(element and last).read]

    def another_method(self, element: Any, last: Any = STATE) -> Any:
        return [last.__getattribute__("read")]

    def an_error_of_the_state(self, element: Any, last: Any = STATE) -> Any:
        try:
            last.unknown()
        except AttributeError as error:
            return [error.obj.read]

    def a_traceback(self, element: Any, last: Any = STATE) -> Any:
        try:
            last.read()
            raise KeyError
        except KeyError as error:
            traceback: Any = error.__traceback__
            return [traceback.tb_frame.f_locals["last"].read]

    def a_context_manager(self, element: Any, last: Any = STATE) -> Any:
        seen: list[Any] = []
        with Seeing(seen):
            last.read()
            raise KeyError
        return seen

    def a_method_in_an_assignment(self, element: Any, last: Any = STATE) -> Any:
        read = last.read
        read()
        return [read]


def methods_of(fn: beam.DoFn) -> list[Any]:
    return [getattr(fn, name) for name, found in vars(type(fn)).items() if inspect.isfunction(found)]


@pytest.mark.parametrize("method", methods_of(Plain()), ids=lambda method: method.__name__)
def test_calls_of_methods_keep_nothing(method: Any) -> None:
    assert calls_methods_only(method, "last", KIND)
    assert calls_methods_only(method, 1, KIND) == (method.__name__ != "by_keyword")


@pytest.mark.parametrize("method", methods_of(Keeping()), ids=lambda method: method.__name__)
def test_what_may_keep_an_accessor_is_seen(method: Any) -> None:
    assert not calls_methods_only(method, "last", KIND)
    assert not calls_methods_only(method, 1, KIND)


@pytest.mark.parametrize("method", methods_of(Keeping()), ids=lambda method: method.__name__)
def test_a_kept_accessor_stays_that_of_its_key(method: Any) -> None:
    """However it is kept."""

    class Both(Keeping):
        process = getattr(Keeping, method.__name__)

    work = Work(Both())
    work.process(*[(key, n) for n, key in enumerate("abca")])
    for n, key in enumerate("abc"):
        work.executor.state.column(*_place(work)).put(key, n)

    assert [0, 1, 2, 0] == [read() for read in work.taken()]


def _place(work: Work) -> tuple[Any, str]:
    (window,) = work.executor.expiries
    return window, "last"


def test_a_function_that_is_no_method_and_an_unknown_place_are_not_plain() -> None:
    """Nothing is known of them."""

    def decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return call

    class Wrapped(beam.DoFn):
        @decorated
        def process(self, element: Any, last: Any = STATE) -> Any:
            last.read()
            yield element

        def rest(self, *arguments: Any) -> Any:
            last = arguments[1]
            return [last.read()]

    assert not calls_methods_only(Wrapped().process, "last", KIND)
    assert not calls_methods_only(Wrapped().process, 1, KIND)
    assert not calls_methods_only(Wrapped().rest, 1, KIND)
    assert not calls_methods_only(len, 0, KIND)
    assert not yields_once(Wrapped().process)
    assert not yields_once(len)


class Once:
    """Generators with at most one output."""

    def always(self, element: Any) -> Iterator[Any]:
        yield element

    def sometimes(self, element: Any) -> Iterator[Any]:
        if element:
            yield element

    def after_a_comprehension(self, element: Any) -> Iterator[Any]:
        yield sum(1 for _ in element)


class Often:
    """Other methods."""

    def twice(self, element: Any) -> Iterator[Any]:
        yield element
        yield element

    def loop(self, element: Any) -> Iterator[Any]:
        for part in element:
            yield part, 1

    def endless(self, element: Any) -> Iterator[Any]:
        while True:
            yield element

    def others(self, element: Any) -> Iterator[Any]:
        yield from element

    def listed(self, element: Any) -> list[Any]:
        return [element]


def test_generators_without_a_loop_yield_once() -> None:
    once, often = Once(), Often()

    assert [once.always, once.sometimes, once.after_a_comprehension] == [
        method
        for fn in (once, often)
        for name, found in vars(type(fn)).items()
        if inspect.isfunction(found) and yields_once(method := getattr(fn, name))
    ]


class Yields:
    def pair(self, element: Any) -> Iterator[Any]:
        yield element, 1

    def number_or_text(self, element: Any) -> Iterator[Any]:
        if element:
            yield len(element)
        yield str(element)

    def element(self, element: Any) -> Iterator[Any]:
        yield element

    def operator(self, element: Any) -> Iterator[Any]:
        yield element @ 7

    def start_of_a_sum(self, element: Any) -> Iterator[Any]:
        yield sum([], element)

    def item(self, element: Any) -> Iterator[Any]:
        yield element[0]

    def choice(self, element: Any) -> Iterator[Any]:
        yield (element, 1) if element else TimestampedValue(element, 1)

    def stamped(self, element: Any) -> Iterator[Any]:
        yield element, 1
        yield TimestampedValue(element, 1)

    def others(self, element: Any) -> Iterator[Any]:
        yield 1, 2
        yield from element

    def result(self, element: Any) -> tuple[Any, int]:
        return element, 1


def test_new_values_are_plain_outputs() -> None:
    """Outputs with timestamps of their own, the element, and what another iterator yields aren't known to be."""
    fn = Yields()
    plain = [name for name in vars(Yields) if not name.startswith("_") and yields_plain(getattr(fn, name))]

    assert ["pair", "number_or_text"] == plain


class Sums(beam.DoFn):
    def process(self, element: Any, last: Any = STATE, total: Any = ALL) -> Any:
        key, value = element
        before = last.read()
        last.write(value)
        total.add(value)
        yield key, before, total.read()


class CheckedSums(Sums):
    """The same; the bytecode says nothing of it."""

    def process(self, element: Any, last: Any = STATE, total: Any = ALL) -> Any:
        states = [last, total]
        yield from [next(Sums().process(element, *states))]


@pytest.mark.parametrize("count", [3, 40_000])
def test_checks_that_are_left_out_make_no_difference(count: int) -> None:
    """For more elements than a bundle has, too."""
    taken = []
    for fn in (Sums(), CheckedSums()):
        work = Work(fn)
        work.process(*[("abc"[n % 3], n) for n in range(count)])
        taken.append(work.taken())

    assert taken[0] == taken[1]
    assert count == len(taken[0])
