"""Fanout: panes of the parts, what means no fanout, and what is no fanout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.runners.local_variants import runner_of

import penstock as beam
from penstock.sdk import graph
from penstock.sdk.errors import UserCodeError
from penstock.testing import TestPipeline, TestStream, assert_that, equal_to
from penstock.triggers import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from penstock.windowing import FixedWindows, GlobalWindows, Sessions, TimestampedValue, WindowFn

DISCARDING, ACCUMULATING, RETRACTING = AccumulationMode
SUMS = {
    DISCARDING: [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)],
    ACCUMULATING: [(1, 1), (1, 3), (1, 6), (1, 10), (1, 15)],
    RETRACTING: [(1, 1), (-1, 1), (1, 3), (-1, 3), (1, 6), (-1, 6), (1, 10), (-1, 10), (1, 15)],
}


class Signed(beam.DoFn):
    """Outputs with their signs, which are values then."""

    def process(self, element: Any, sign: Any = beam.DoFn.SignParam) -> Any:
        yield sign, element


def one_at_a_time() -> TestStream:
    stream = TestStream()
    for n in range(1, 6):
        stream = stream.add_elements([TimestampedValue(n, n)])
    return stream.advance_watermark_to_infinity()


def each_element(window_fn: WindowFn, mode: AccumulationMode) -> Any:
    return beam.WindowInto(window_fn, trigger=Repeatedly(AfterCount(1)), accumulation_mode=mode)


@pytest.mark.parametrize("mode", AccumulationMode)
@pytest.mark.parametrize("window_fn", [GlobalWindows(), Sessions(10)], ids=["global", "sessions"])
def test_a_fanout_leaves_every_pane_as_it_is(streaming: Any, window_fn: WindowFn, mode: AccumulationMode) -> None:
    """Each input counts once, though the second step accumulates: the first one discards."""
    with TestPipeline(runner=streaming) as p:
        numbers = p | one_at_a_time() | each_element(window_fn, mode)
        total = numbers | beam.CombineGlobally(sum).without_defaults().with_fanout(2)
        assert_that(total | "a" >> beam.ParDo(Signed()), equal_to(SUMS[mode]), label="globally")
        pairs = numbers | beam.WithKeys("k")
        for name, fanout in FANOUTS.items():
            sums = pairs | name >> beam.CombinePerKey(sum).with_hot_key_fanout(fanout) | f"{name} v" >> beam.Values()
            assert_that(sums | f"{name} s" >> beam.ParDo(Signed()), equal_to(SUMS[mode]), label=f"{name} sums")


FANOUTS: dict[str, int | Callable[[Any], int] | None] = {
    "none": None,
    "0": 0,
    "1": 1,
    "3": 3,
    "0 by key": lambda key: 0,
    "1 by key": lambda key: 1,
    "2 by key": lambda key: 2,
}


@pytest.fixture(params=["local", "local-job", "local-2"])
def streaming(request: pytest.FixtureRequest) -> Any:
    """The local runner, and jobs in this process."""
    return runner_of(request.param)


@pytest.mark.parametrize("mode", AccumulationMode)
def test_early_on_time_and_late_panes_of_a_fanout_are_those_without(mode: AccumulationMode) -> None:
    """Of the values; the number of panes of a window is the second step's affair."""
    stream = (
        TestStream()
        .add_elements([TimestampedValue(("k", n), n) for n in (1, 2, 3)])
        .advance_watermark_to(10)
        .add_elements([TimestampedValue(("k", 4), 4)])
        .advance_watermark_to_infinity()
    )
    windowing = beam.WindowInto(
        FixedWindows(10),
        trigger=AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        accumulation_mode=mode,
        allowed_lateness=20,
    )
    last = {DISCARDING: 4, ACCUMULATING: 10, RETRACTING: 10}[mode]
    with TestPipeline() as p:
        sums = p | stream | windowing | beam.CombinePerKey(sum).with_hot_key_fanout(2)
        panes = sums | beam.ParDo(Signed())
        assert_that(panes, lambda found: _ends_with((1, ("k", last)), found))


def _ends_with(last: Any, found: list[Any]) -> None:
    assert last == found[-1]


def test_inputs_that_may_be_retracted_are_combined_in_one_step() -> None:
    """In two, a part might have discarded what it is to take back."""
    with TestPipeline() as p:
        running = p | one_at_a_time() | each_element(GlobalWindows(), RETRACTING) | beam.WithKeys("k")
        sums = running | "sum" >> beam.CombinePerKey(sum) | beam.Values() | "all" >> beam.WithKeys("all")
        highest = sums | "highest" >> beam.CombinePerKey(max).with_hot_key_fanout(3)
        net = highest | beam.ParDo(Signed())
        assert_that(net, lambda found: _nets_to({("all", 15): 1}, found))


def _nets_to(expected: dict[Any, int], found: list[Any]) -> None:
    net: dict[Any, int] = {}
    for sign, value in found:
        net[value] = net.get(value, 0) + sign
    assert expected == {value: count for value, count in net.items() if count}


@pytest.mark.parametrize("fanout", [0, 1, None])
def test_a_fanout_that_is_none_adds_no_step(fanout: int | None) -> None:
    p = TestPipeline()
    p | beam.Create([("k", 1)]) | beam.CombinePerKey(sum).with_hot_key_fanout(fanout)
    p | "numbers" >> beam.Create([1]) | beam.CombineGlobally(sum).without_defaults().with_fanout(fanout)
    kinds = [type(transform.primitive) for transform in p.graph().transforms]
    assert 2 == kinds.count(graph.GroupByKeyAndWindow)


@pytest.mark.parametrize("fanout", [-1, 2.0, "2", True])
def test_what_is_no_number_of_parts_is_refused_when_it_is_given(fanout: Any) -> None:
    with pytest.raises(ValueError, match="with_hot_key_fanout: the fanout must be an int of at least 0"):
        beam.CombinePerKey(sum).with_hot_key_fanout(fanout)
    with pytest.raises(ValueError, match="with_fanout: the fanout must be an int of at least 0"):
        beam.CombineGlobally(sum).with_fanout(fanout)


@pytest.mark.parametrize("fanout", [-1, None, 2.0, "2", True])
def test_a_function_that_gives_no_number_of_parts_is_told_of_with_its_key(fanout: Any) -> None:
    """By the transform's label, as any error of a user's function."""
    message = rf"the fanout of the key 'k' must be an int of at least 0 .* got {fanout!r}"
    with pytest.raises(UserCodeError, match=message) as caught, TestPipeline() as p:
        p | beam.Create([("k", 1)]) | "sum" >> beam.CombinePerKey(sum).with_hot_key_fanout(lambda key: fanout)
    assert "sum/Spread" in str(caught.value)


def test_a_combiner_with_a_side_input_is_combined_in_one_step() -> None:
    """The content of the side input is known only after the shuffle."""

    def total(values: Any, plus: int = 0) -> int:
        return sum(values) + plus

    with TestPipeline() as p:
        plus = beam.pvalue.AsSingleton(p | "plus" >> beam.Create([10]))
        pairs = p | beam.Create([("k", 1), ("k", 2)])
        assert_that(pairs | beam.CombinePerKey(total, plus=plus).with_hot_key_fanout(2), equal_to([("k", 13)]))


def test_late_data_of_a_fanout_comes_out_with_its_key_and_value() -> None:
    stream = (
        TestStream()
        .add_elements([TimestampedValue(("k", 1), 1)])
        .advance_watermark_to(100)
        .add_elements([TimestampedValue(("k", 2), 2)])
        .advance_watermark_to_infinity()
    )
    with TestPipeline() as p:
        windows = p | stream | beam.WindowInto(FixedWindows(10))
        outputs = windows | beam.CombinePerKey(sum).with_late_data().with_hot_key_fanout(2)
        assert_that(outputs[None], equal_to([("k", 1)]), label="main")
        assert_that(outputs.late, equal_to([("k", 2)]), label="late")
