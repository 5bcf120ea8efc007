"""Retractions: the sum of the signs at a sink equals the result of a batch.

Random chains of groupings whose keys move, with random windows and triggers, on random
arrivals: in any order, with any lateness, and with any panes emitted
before all elements had arrived.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.pipelines.recording import recorded, whole
from support.pipelines.strategies import (
    ANY_TIMESTAMPS,
    Bundle,
    Chain,
    Event,
    Step,
    Watermark,
    Windowing,
    all_events,
    chains,
    on_time,
    scripts,
    sorted_values,
    stream_of,
    timestamped,
    window_fns,
    windowings,
)

import penstock as beam
from penstock.triggers import AfterCount, AfterWatermark, Repeatedly
from penstock.windowing import FixedWindows, GlobalWindows, Sessions

MANY = settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])

# A pipeline, given the PCollection of pairs, and whether they are a stream.
Built = Callable[[Any, bool], Any]


def of_stream(run: Any, script: Sequence[Step], pipeline: Built) -> Counter[Any]:
    """Return the sums of the signs at the sink, by value, timestamp and windows."""
    return run(lambda p: pipeline(p | stream_of(script), True)).net(whole)


def of_batch(events: Sequence[Event], pipeline: Built) -> Counter[Any]:
    """The same of a batch with these events."""
    return recorded(lambda p: pipeline(p | beam.Create(timestamped(events)), False)).net(whole)


def chained(chain: Chain, windowing: Windowing) -> Built:
    return lambda pairs, streaming: chain.built(pairs, windowing, streaming)


EAGER = Repeatedly(AfterCount(1))
IN_SESSIONS = windowings(window_fns(merging=True))


@MANY
@given(scripts(), chains(1), windowings())
def test_one_grouping(run: Any, script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """Late data included, since the lateness is long."""
    pipeline = chained(chain, windowing)
    assert of_batch(all_events(script), pipeline) == of_stream(run, script, pipeline)


@MANY
@given(scripts(), chains(2), windowings())
def test_two_groupings_with_keys_that_move(run: Any, script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """A result that changes is taken from one group and given to another."""
    pipeline = chained(chain, windowing)
    assert of_batch(all_events(script), pipeline) == of_stream(run, script, pipeline)


AT_ANY_TIME = windowings(timestamps=ANY_TIMESTAMPS)


@MANY
@given(scripts(), chains(2, AT_ANY_TIME), AT_ANY_TIME)
def test_results_have_the_timestamps_of_a_batch_where_nothing_is_behind_the_watermark(
    run: Any, script: list[Step], chain: Chain, windowing: Windowing
) -> None:
    """The earliest or the latest of their elements."""
    script, pipeline = on_time(script), chained(chain, windowing)
    assert of_batch(all_events(script), pipeline) == of_stream(run, script, pipeline)


@MANY
@given(scripts(), chains(3), windowings())
def test_three_groupings_with_keys_that_move(run: Any, script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """And so on."""
    pipeline = chained(chain, windowing)
    assert of_batch(all_events(script), pipeline) == of_stream(run, script, pipeline)


@MANY
@given(scripts(max_steps=16, until=20), chains(2, IN_SESSIONS), IN_SESSIONS)
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
def test_sessions_of_sessions(run: Any, script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """Windows that have merged part again when what joined them is taken back."""
    pipeline = chained(chain, windowing)
    assert of_batch(all_events(script), pipeline) == of_stream(run, script, pipeline)


# Windows that don't merge, and that an event has one of: it is either late or not.
ONE_WINDOW = st.sampled_from([FixedWindows(10), FixedWindows(7, 2), GlobalWindows()])


@MANY
@given(scripts(), chains(2), windowings(ONE_WINDOW, lateness=st.sampled_from([0, 3, 10])))
def test_data_too_late(run: Any, script: list[Step], chain: Chain, windowing: Windowing) -> None:
    """Elements dropped by the first grouping have no effect; no other change is lost downstream.

    Where it drops nothing the events are late, by less than it allows.
    """
    pipeline = chained(chain, windowing)
    kept = [event for event, _ in windowing.kept(script)]
    assert of_batch(kept, pipeline) == of_stream(run, script, pipeline)


def joined(pairs: Sequence[Any]) -> Any:
    """How many values each side has for a key, and their sums."""
    grouped = {"left": pairs[0], "right": pairs[1]} | beam.CoGroupByKey()
    return grouped | beam.MapTuple(
        lambda k, sides: (k, tuple(sorted((n, tuple(sorted(vs))) for n, vs in sides.items())))
    )


@MANY
@given(scripts(sources=2), windowings(), st.booleans())
def test_joins_of_two_streams(run: Any, script: list[Step], windowing: Windowing, are_results: bool) -> None:
    """Of elements, and of results that are retracted themselves; each stream has its own watermark."""

    def sides(pairs: Sequence[Any], streaming: bool) -> Any:
        windows = windowing.stream if streaming else windowing.batch
        found = [side | f"windows {i}" >> windows() for i, side in enumerate(pairs)]
        if are_results:
            found = [side | f"sums {i}" >> beam.CombinePerKey(sum) for i, side in enumerate(found)]
            found = [side | f"odd {i}" >> beam.MapTuple(lambda k, v: (v % 2, v)) for i, side in enumerate(found)]
        return joined(found)

    def of_streams(p: Any) -> Any:
        outputs = p | stream_of(script, ["l", "r"])
        return sides([outputs["l"], outputs["r"]], streaming=True)

    def of_batches(p: Any) -> Any:
        return sides([p | f"{i}" >> beam.Create(timestamped(all_events(script, i))) for i in (0, 1)], streaming=False)

    assert recorded(of_batches).net(whole) == run(of_streams).net(whole)


@MANY
@given(scripts(), windowings())
def test_a_stream_joined_with_its_own_results(run: Any, script: list[Step], windowing: Windowing) -> None:
    """Elements, which stay, and results, which are taken back, in one grouping."""

    def pipeline(pairs: Any, streaming: bool) -> Any:
        windowed = pairs | "windows" >> (windowing.stream() if streaming else windowing.batch())
        sums = windowed | beam.CombinePerKey(sum)
        return (windowed, sums) | beam.Flatten() | beam.GroupByKey() | beam.MapTuple(sorted_values)

    assert of_batch(all_events(script), pipeline) == of_stream(run, script, pipeline)


@MANY
@given(scripts(), chains(2), windowings())
def test_nothing_is_taken_back_that_was_not_said(
    run: Any, script: list[Step], chain: Chain, windowing: Windowing
) -> None:
    """A retraction comes after its element, with the timestamp, windows and pane that this had."""
    standing: Counter[Any] = Counter()
    for change in run(lambda p: chain.built(p | stream_of(script), windowing, True)).changes:
        what = (*whole(change), change.pane)
        standing[what] += change.sign
        assert standing[what] >= 0, change


def test_a_chain_of_every_kind_at_once(run: Any) -> None:
    """One that can be read: words to counts to how many words come so often, in windows of ten seconds."""
    windowing = Windowing(FixedWindows(10), AfterWatermark(early=AfterCount(1), late=AfterCount(1)))
    chain = Chain("sum", (("by value", None, "count"), ("by parity", Windowing(GlobalWindows(), EAGER), "sum")))
    script: list[Step] = [Bundle((("a", 1, 1),)), Bundle((("b", 1, 2),)), Watermark(20), Bundle((("a", 1, 3),))]
    actual = of_stream(run, script, chained(chain, windowing))
    assert {("odd", 2): 1} == {value: count for (value, _, _), count in actual.items()}
    assert of_batch(all_events(script), chained(chain, windowing)) == actual
