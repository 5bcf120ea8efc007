"""Triggers for tests: each simple one with what makes it fire, and hypothesis's of all kinds."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

from penstock.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterSignal,
    AfterSize,
    AfterWatermark,
    AfterWatermarkPercentile,
    Always,
    DataDrivenTrigger,
    DefaultTrigger,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)


class AfterFullStop(DataDrivenTrigger):
    """Fires on a punctuation."""

    def update(self, own: Any, element: Any, pane: Any) -> bool:
        return bool(own) or element.endswith(".")

    def is_ready(self, own: Any, pane: Any) -> bool:
        return bool(own)

    def merge(self, owns: Any, pane: Any) -> bool:
        return any(owns)


class OfAUser(Trigger):
    """Fires for the first element; written against the protocol alone, so it doesn't remember having finished."""

    def on_element(self, state: Any, element: Any, context: Any) -> bool:
        return True

    def on_merge(self, states: Any, context: Any) -> bool:
        return any(states)

    def should_fire(self, state: Any, context: Any) -> bool:
        return bool(state)

    def on_fire(self, state: Any, context: Any) -> tuple[Any, bool]:
        return None, True

    def __repr__(self) -> str:
        return "OfAUser()"


@attrs.frozen
class Simple:
    """A trigger that fires at the last of `first` and, if repeated, at the last of `then`."""

    trigger: Trigger
    first: list[tuple[Any, ...]]
    then: list[tuple[Any, ...]]
    needs_watermark: bool = False

    def __str__(self) -> str:
        return repr(self.trigger)


ONE = ("bundle", "w", 1)

# Triggers that finish when they fire.  The window ends at 60.
ONCE = [
    Simple(AfterCount(2), [ONE, ONE], [ONE, ONE]),
    Simple(AfterSize(3), [("element", "w", "ab"), ("element", "w", "c")], [("element", "w", "abcd")]),
    Simple(AfterProcessingTime(10), [ONE, ("processing_time", 10)], [ONE, ("processing_time", 20)]),
    Simple(AfterProcessingTime(align_to=60), [ONE, ("processing_time", 60)], [ONE, ("processing_time", 120)]),
    Simple(AfterProcessingTime(), [ONE], [ONE]),
    Simple(AfterSignal("flush"), [ONE, ("signal", "flush")], [ONE, ("signal", "flush")]),
    Simple(AfterWatermarkPercentile(0.9), [ONE, ("percentile", 0.9, 60)], [ONE]),
    Simple(AfterFullStop(), [("element", "w", "a"), ("element", "w", "b.")], [("element", "w", "c.")]),
    Simple(OfAUser(), [ONE], [ONE]),
    Simple(AfterWatermark(), [ONE, ("watermark", 60)], [ONE], needs_watermark=True),
]
EARLY = [simple for simple in ONCE if not simple.needs_watermark]


def only_the_last(steps: list[Any]) -> list[int]:
    """One firing, at the last of these steps."""
    return [0] * (len(steps) - 1) + [1]


def triggers() -> st.SearchStrategy[Trigger]:
    """Triggers of all kinds, composites within composites included."""
    simple = st.sampled_from(
        [*(simple.trigger for simple in ONCE), AfterCount(1), AfterCount(3), DefaultTrigger(), Always(), Never()]
    )

    def composites(part: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
        several = st.lists(part, min_size=1, max_size=3)
        return st.one_of(
            part.map(Repeatedly),
            st.builds(lambda parts: AfterEach(*parts), several),
            st.builds(lambda parts: AfterAny(*parts), several),
            st.builds(lambda parts: AfterAll(*parts), several),
            st.builds(OrFinally, part, part),
            st.builds(AfterWatermark, st.none() | part, st.none() | part),
        )

    return st.recursive(simple, composites, max_leaves=5)


def steps(windows: list[str]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Steps of a script for some windows: elements, and clocks that advance."""
    window = st.sampled_from(windows)
    step = st.one_of(
        st.tuples(st.just("element"), window, st.sampled_from(["a", "abc", "b."])),
        st.tuples(st.just("watermark"), st.integers(1, 40)),
        st.tuples(st.just("processing_time"), st.integers(1, 40)),
        st.tuples(st.just("percentile"), st.just(0.9), st.integers(1, 40)),
        st.tuples(st.just("signal"), st.just("flush")),
    )
    return st.lists(step, max_size=8).map(clocks_add_up)


def clocks_add_up(script: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same steps with clocks that never go back: each move is by so many seconds."""
    at: dict[Any, int] = {}
    result = []
    for step in script:
        if step[0] in ("watermark", "processing_time", "percentile"):
            at[step[:-1]] = at.get(step[:-1], 0) + step[-1]
            step = (*step[:-1], at[step[:-1]])
        result.append(step)
    return result
