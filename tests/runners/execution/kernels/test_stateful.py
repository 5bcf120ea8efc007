"""stateful: the loop over a bundle does what a plain loop over `process` does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.execution.stateful_pardo import S, Work

import penstock as beam
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.userstate import BagStateSpec, ReadModifyWriteStateSpec
from penstock.sdk.userstate.store import DictStore
from penstock.windowing import GLOBAL_WINDOW, BoundedWindow, IntervalWindow, Timestamp

LAST, SEEN = ReadModifyWriteStateSpec("last"), BagStateSpec("seen")
STATE, BAG = beam.DoFn.StateParam(LAST), beam.DoFn.StateParam(SEEN)


class OneState(beam.DoFn):
    def process(self, element: Any, last: Any = STATE) -> Iterator[Any]:
        key, value = element
        yield key, last.read(), value
        last.write(value)


class TwoStates(beam.DoFn):
    """With all that a function may ask for, as a list or nothing."""

    def process(
        self,
        element: Any,
        last: Any = STATE,
        seen: Any = BAG,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> list[Any] | None:
        value = element[1]
        before = last.read()
        last.write(value)
        if value % 3 == 0:
            return None
        seen.add(value)
        return [(key, before, at, window), (key, list(seen.read()))]


class Keeping(beam.DoFn):
    """Accessors that are kept remain those of their key."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def process(self, element: Any, last: Any = STATE) -> Iterator[Any]:
        last.write(element[1])
        self.kept.append(last)
        yield [state.read() for state in self.kept]


def by_hand(fn: Any, rows: list[tuple[str, int, int, tuple[BoundedWindow, ...]]]) -> list[Any]:
    """The outputs of a plain loop."""
    stores: dict[Any, Any] = {}
    outputs: list[Any] = []
    for key, value, second, windows in rows:
        for window in windows:
            store = stores.setdefault((key, window), DictStore())
            states = [spec.of(store) for spec in (LAST, SEEN)]
            arguments = states if isinstance(fn, TwoStates) else states[:1]
            if isinstance(fn, TwoStates):
                arguments += [key, Timestamp(second), window]
            outputs += fn.process((key, value), *arguments) or ()
    return outputs


@pytest.mark.parametrize("make", [OneState, TwoStates, Keeping])
@given(
    keys=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=10),
    windows=st.sampled_from([(GLOBAL_WINDOW,), (IntervalWindow(0, 9),), (IntervalWindow(0, 9), IntervalWindow(0, 5))]),
    varying=st.tuples(st.booleans(), st.booleans()),
)
def test_a_bundle_gives_what_a_loop_over_process_gives(
    make: Any, keys: list[tuple[str, int, int]], windows: Any, varying: tuple[bool, bool]
) -> None:
    """For bundles of any shape."""
    times, own = [second for *_, second in keys], [windows] * len(keys)
    if not varying[0]:
        times = [times[0]] * len(keys)
    rows = [(key, value, second, windows) for (key, value, _), second in zip(keys, times, strict=True)]
    work = Work(make())
    columns: list[Any] = [[second * S for second in times], own]
    shared = [column if varies else column[0] for column, varies in zip(columns, varying, strict=True)]
    work.executor.process(Bundle([(key, value) for key, value, *_ in rows], *shared))

    assert by_hand(make(), rows) == work.taken()
