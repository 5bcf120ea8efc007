"""What retractions promise: summing signs, what has reached a sink is what a batch would write.

Random chains of groupings whose keys move, with random windows and triggers, on random
arrivals: in whatever order the elements come, however late, and whatever was said of them
before all had come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from recording import Change, Recording, frozen, record
from strategies import (
    Bundle,
    Chain,
    Step,
    Watermark,
    Windowing,
    all_events,
    chains,
    scripts,
    sorted_values,
    stream_of,
    timestamped,
    window_fns,
    windowings,
)

import penstock as beam
from penstock.testing import TestPipeline
from penstock.triggers import AfterCount, AfterWatermark, Repeatedly
from penstock.windowing import FixedWindows, GlobalWindows, Sessions

MANY = settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])


def streamed(script: Sequence[Step], chain: Chain, windowing: Windowing) -> Recording:
    with TestPipeline() as p:
        sink = record(chain.built(p | stream_of(script), windowing, streaming=True))
    return sink


def in_batch(script: Sequence[Step], chain: Chain, windowing: Windowing) -> Recording:
    with TestPipeline() as p:
        pairs = p | beam.Create(timestamped(all_events(script)))
        sink = record(chain.built(pairs, windowing, streaming=False))
    return sink


def whole(change: Change) -> Any:
    """A value with its timestamp and windows."""
    return frozen(change.value), change.micros, change.windows


EAGER = Repeatedly(AfterCount(1))


@MANY
@given(scripts(), chains(1), windowings())
def test_one_grouping(script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """Late data included, since the lateness is long."""
    assert in_batch(script, chain, windowing).net(whole) == streamed(script, chain, windowing).net(whole)


@MANY
@given(scripts(), chains(2), windowings())
def test_two_groupings_with_keys_that_move(script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """A result that changes is taken from one group and given to another."""
    assert in_batch(script, chain, windowing).net(whole) == streamed(script, chain, windowing).net(whole)


@MANY
@given(scripts(), chains(3), windowings())
def test_three_groupings_with_keys_that_move(script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """And so on."""
    assert in_batch(script, chain, windowing).net(whole) == streamed(script, chain, windowing).net(whole)


@MANY
@given(scripts(max_events=16), chains(2, window_fns(merging=True)), windowings(window_fns(merging=True)))
@example(
    # The session of b that joined those of a and c, which are of the same value, ends up with another one.
    script=[
        Bundle((("a", 1, 0), ("b", 1, 3), ("c", 1, 6))),
        Watermark(20),
        Bundle((("b", 1, 4),)),
    ],
    chain=Chain("count", (("by value", None, "count"),)),
    windowing=Windowing(Sessions(4), EAGER),
)
def test_sessions_of_sessions(script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """Windows that have merged part again when what joined them is taken back."""
    assert in_batch(script, chain, windowing).net(whole) == streamed(script, chain, windowing).net(whole)


def joined(pairs: Sequence[Any]) -> Any:
    """How many values each side has for a key, and their sums."""
    grouped = {"left": pairs[0], "right": pairs[1]} | beam.CoGroupByKey()
    return grouped | beam.MapTuple(
        lambda k, sides: (k, tuple(sorted((n, tuple(sorted(vs))) for n, vs in sides.items())))
    )


@MANY
@given(scripts(sources=2), windowings(), st.booleans())
def test_joins_of_two_streams(script: list[Step], windowing: Windowing, are_results: bool) -> None:
    """Of elements, and of results that are retracted themselves; each stream has its own watermark."""

    def sides(pairs: Sequence[Any], streaming: bool) -> Any:
        windows = windowing.stream if streaming else windowing.batch
        found = [side | f"windows {i}" >> windows() for i, side in enumerate(pairs)]
        if are_results:
            found = [side | f"sums {i}" >> beam.CombinePerKey(sum) for i, side in enumerate(found)]
            found = [side | f"odd {i}" >> beam.MapTuple(lambda k, v: (v % 2, v)) for i, side in enumerate(found)]
        return joined(found)

    with TestPipeline() as p:
        outputs = p | stream_of(script, ["l", "r"])
        actual = record(sides([outputs["l"], outputs["r"]], streaming=True))
    with TestPipeline() as p:
        inputs = [p | f"{i}" >> beam.Create(timestamped(all_events(script, i))) for i in (0, 1)]
        expected = record(sides(inputs, streaming=False))
    assert expected.net(whole) == actual.net(whole)


@MANY
@given(scripts(sources=2), windowings())
def test_a_stream_joined_with_its_own_results(script: list[Step], windowing: Windowing) -> None:
    """Elements, which stay, and results, which are taken back, in one grouping."""

    def pipeline(pairs: Any, streaming: bool) -> Any:
        windowed = pairs | "windows" >> (windowing.stream() if streaming else windowing.batch())
        sums = windowed | beam.CombinePerKey(sum)
        return (windowed, sums) | beam.Flatten() | beam.GroupByKey() | beam.MapTuple(sorted_values)

    with TestPipeline() as p:
        actual = record(pipeline(p | stream_of([s for s in script if getattr(s, "source", 0) == 0]), True))
    with TestPipeline() as p:
        expected = record(pipeline(p | beam.Create(timestamped(all_events(script))), False))
    assert expected.net(whole) == actual.net(whole)


@MANY
@given(scripts(), chains(2), windowings())
def test_nothing_is_taken_back_that_was_not_said(script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """A retraction comes after its element, with the timestamp, windows and pane that this had."""
    standing: dict[Any, int] = {}
    for change in streamed(script, chain, windowing).changes:
        what = (*whole(change), change.pane)
        standing[what] = standing.get(what, 0) + change.sign
        assert standing[what] >= 0, change


@MANY
@given(scripts(), st.randoms(use_true_random=False), windowings(window_fns()))
def test_the_order_of_arrivals_makes_no_difference_in_the_end(
    script: list[Step], random: Any, windowing: Windowing
) -> None:
    """The same elements in another order and other bundles, with the same clocks in between."""
    arrived = all_events(script)
    random.shuffle(arrived)
    shuffled: list[Step] = []
    for step in script:
        if isinstance(step, Bundle):
            taken = [arrived.pop() for _ in range(min(len(arrived), random.randint(0, 2 * len(step.events))))]
            shuffled.append(Bundle(tuple(taken)))
        else:
            shuffled.append(step)
    shuffled.append(Bundle(tuple(arrived)))
    chain = Chain("list", (("by value", None, "sum"),))
    assert streamed(script, chain, windowing).net(whole) == streamed(shuffled, chain, windowing).net(whole)


def test_a_chain_of_every_kind_at_once() -> None:
    """One that can be read: words to counts to how many words come so often, in windows of ten seconds."""
    windowing = Windowing(FixedWindows(10), AfterWatermark(early=AfterCount(1), late=AfterCount(1)))
    chain = Chain("sum", (("by value", None, "count"), ("by parity", Windowing(GlobalWindows(), EAGER), "sum")))
    script: list[Step] = [Bundle((("a", 1, 1),)), Bundle((("b", 1, 2),)), Watermark(20), Bundle((("a", 1, 3),))]
    assert {("odd", 2): 1} == {v: n for (v, _), n in streamed(script, chain, windowing).net().items()}
    assert in_batch(script, chain, windowing).net() == streamed(script, chain, windowing).net()
