"""In whatever order elements arrive, in whatever bundles, and whatever the clocks do between: the final values are one.

What the final value of a window is depends on how its panes relate.  Discarding, they add up
to it; accumulating, the last one is it; retracting, it is what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.pipelines.recording import Change, Recording, recorded, whole
from support.pipelines.strategies import (
    ANY_TIMESTAMPS,
    GROUPINGS,
    MODES,
    REKEYINGS,
    Bundle,
    Chain,
    Event,
    Step,
    Windowing,
    arrivals,
    chains,
    events,
    interleavings,
    scripts,
    sorted_values,
    stream_of,
    timestamped,
    windowings,
)

import penstock as beam
from penstock.triggers import AccumulationMode

MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])

# The same events, arriving twice.
TWO_ARRIVALS = events().flatmap(lambda found: st.tuples(st.just(found), arrivals(found), arrivals(found)))


def lies_within(window: Any, other: Any) -> bool:
    """Whether a window is another one, or a part of it: what has merged into it."""
    if window == other or not hasattr(window, "start_micros"):
        return bool(window == other)
    return bool(other.start_micros <= window.start_micros and window.end_micros <= other.end_micros)


def final_values(mode: AccumulationMode, changes: Sequence[Change], windows: Sequence[Any]) -> dict[Any, Any]:
    """The sum in each key's window, of those that there are in the end."""
    found: dict[Any, Any] = {}
    for key, window in windows:
        panes = [c for c in changes if c.value[0] == key and lies_within(c.windows[0], window)]
        if mode is AccumulationMode.DISCARDING:
            found[key, window] = sum(pane.value[1] for pane in panes)
        elif mode is AccumulationMode.ACCUMULATING:
            found[key, window] = next(pane.value[1] for pane in reversed(panes) if pane.windows[0] == window)
        else:
            found[key, window] = sum(pane.sign * pane.value[1] for pane in panes)
    return found


@MANY
@given(TWO_ARRIVALS, windowings(mode=MODES, timestamps=ANY_TIMESTAMPS))
def test_one_grouping_in_any_mode(
    run: Any, both: tuple[list[Event], list[Step], list[Step]], windowing: Windowing
) -> None:
    """Two arrivals of the same events give the sums that a batch gives."""
    arrived, *scripts = both

    def sums(pairs: Any, windows: beam.WindowInto) -> Any:
        return pairs | windows | beam.CombinePerKey(sum)

    batch = recorded(lambda p: sums(p | beam.Create(timestamped(arrived)), windowing.batch())).changes
    expected = {(change.value[0], change.windows[0]): change.value[1] for change in batch}
    for script in scripts:
        changes = run(lambda p: sums(p | stream_of(script), windowing.stream())).changes
        assert expected == final_values(windowing.mode, changes, list(expected))


@MANY
@given(TWO_ARRIVALS, chains(2), windowings())
def test_two_groupings(
    run: Any, both: tuple[list[Event], list[Step], list[Step]], chain: Chain, windowing: Windowing
) -> None:
    """Results of results, with their timestamps and windows."""
    first, second = (net(run, lambda p: chain.built(p | stream_of(s), windowing, True)) for s in both[1:])
    assert first == second


def net(run: Callable[[Any], Recording], build: Callable[[Any], Any]) -> Counter[Any]:
    return run(build).net(whole)


TWO_INTERLEAVINGS = st.tuples(scripts(max_steps=6), scripts(max_steps=6)).flatmap(
    lambda both: st.tuples(*[interleavings([of_source(both[0], 0), of_source(both[1], 1)])] * 2)
)


def of_source(script: Sequence[Step], source: int) -> list[Step]:
    """The same script, of another source."""
    return [attrs.evolve(step, source=source) if hasattr(step, "source") else step for step in script]


@MANY
@given(TWO_INTERLEAVINGS, windowings(), st.sampled_from(sorted(GROUPINGS)), st.sampled_from(sorted(REKEYINGS)))
def test_two_sources_each_in_its_own_order(
    run: Any, both: tuple[list[Step], list[Step]], windowing: Windowing, grouping: str, rekeying: str
) -> None:
    """Whichever of them is ahead; results of the one meet elements of the other."""

    def build(p: Any, script: Sequence[Step]) -> Any:
        outputs = p | stream_of(script, ["l", "r"])
        left, right = (outputs[tag] | f"windows {tag}" >> windowing.stream() for tag in ("l", "r"))
        results = left | "results" >> GROUPINGS[grouping]() | "rekey" >> REKEYINGS[rekeying]()
        return (results, right) | beam.Flatten() | beam.GroupByKey() | beam.MapTuple(sorted_values)

    first, second = (net(run, lambda p: build(p, script)) for script in both)
    assert first == second


@MANY
@given(
    scripts(),
    windowings(mode=MODES, timestamps=ANY_TIMESTAMPS).filter(lambda windowing: windowing.trigger.element_wise),
)
def test_bundles_make_no_difference_to_a_trigger_that_looks_at_elements(
    run: Any, script: list[Step], windowing: Windowing
) -> None:
    """Not even to the panes of a key: they are those of elements that come one by one."""
    one_by_one: list[Step] = []
    for step in script:
        one_by_one += [Bundle((event,)) for event in step.events] if isinstance(step, Bundle) else [step]

    def panes(script: Sequence[Step]) -> dict[str, list[Change]]:
        changes = run(lambda p: p | stream_of(script) | windowing.stream() | beam.CombinePerKey(sum)).changes
        return {key: [change for change in changes if change.value[0] == key] for key in "ab"}

    assert panes(one_by_one) == panes(script)
