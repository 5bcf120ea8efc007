"""One PCollection as several and several as one: tagged outputs, Partition, Flatten, Tee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.elements.element_wrappers import TaggedOutput, WindowedValue
from penstock.sdk.errors import PipelineError
from penstock.testing import TestWindowedValue
from penstock.windowing import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue


class Sort(beam.DoFn):
    def process(self, n: int) -> Iterator[Any]:
        if n < 0:
            yield TaggedOutput("negative", n)
        elif n > 100:
            yield TaggedOutput("large", n)
        else:
            yield n


# --- Tagged outputs


def test_outputs_are_had_by_tag_by_attribute_and_in_order(pipeline: Any) -> None:
    """The main one by its name, or by None."""
    with pipeline as p:
        numbers = p | beam.Create([1, -1, 101])
        outputs = numbers | beam.ParDo(Sort()).with_outputs("negative", "large", main="rest")
        check([-1], outputs.negative)
        check([101], outputs["large"])
        check([1], outputs.rest)
        rest, negative, large = outputs
        check([1, -1, 101], (rest, negative, large) | beam.Flatten())
        unnamed = numbers | "unnamed" >> beam.ParDo(Sort()).with_outputs("negative", "large")
        check([1], unnamed[None])


def test_functions_may_tag_their_outputs_too(pipeline: Any) -> None:
    """In the results of Map and FlatMap."""

    def sorted_(n: int) -> Any:
        return n if n >= 0 else TaggedOutput("negative", n)

    with pipeline as p:
        rest, negative = p | beam.Create([1, -1]) | beam.Map(sorted_).with_outputs("negative", main="rest")
        check([1], rest)
        check([-1], negative)


def test_outputs_without_a_consumer_are_dropped(pipeline: Any) -> None:
    """Those that were declared; and an output may be taken by several."""
    with pipeline as p:
        outputs = p | beam.Create([1, -1, 101]) | beam.ParDo(Sort()).with_outputs("negative", "large")
        check([1], outputs.negative | "1" >> beam.Map(abs))
        check(["-1"], outputs.negative | "2" >> beam.Map(str))


def test_with_no_tags_declared_any_may_be_asked_for(pipeline: Any) -> None:
    """An output exists once it is."""
    with pipeline as p:
        outputs = p | beam.Create([1, -1]) | beam.ParDo(Sort()).with_outputs()
        check([-1], outputs.negative)
        check([], outputs.large)
        check([1], outputs[None])


class Moves(beam.DoFn):
    """Outputs with times and windows of their own inside of tags."""

    def process(self, element: str) -> Iterator[Any]:
        yield TaggedOutput("plain", element)
        yield TaggedOutput("stamped", TimestampedValue(element, 8))
        yield TaggedOutput("windowed", WindowedValue(element, 1, [IntervalWindow(0, 2)]))
        yield TimestampedValue(element, 9)


def test_a_tagged_output_may_have_a_timestamp_and_windows_of_its_own(pipeline: Any) -> None:
    """The TimestampedValue stands inside of the TaggedOutput."""
    with pipeline as p:
        element = p | beam.Create([TimestampedValue("a", 7)]) | beam.WindowInto(FixedWindows(5))
        outputs = element | beam.ParDo(Moves()).with_outputs("plain", "stamped", "windowed", main="main")
        window = [IntervalWindow(5, 10)]
        expected = {
            "plain": TestWindowedValue("a", 7, window),
            "stamped": TestWindowedValue("a", 8, window),
            "windowed": TestWindowedValue("a", 1, [IntervalWindow(0, 2)]),
            "main": TestWindowedValue("a", 9, window),
        }
        for tag, value in expected.items():
            check([value], outputs[tag], reify_windows=True)


def test_an_output_with_an_undeclared_tag_is_an_error_naming_those_that_were(pipeline: Any) -> None:
    """Nothing is lost silently."""
    _ = pipeline | beam.Create([-1]) | "sort them" >> beam.ParDo(Sort()).with_outputs("large")
    with pytest.raises(PipelineError, match=r"sort them: got an output tagged 'negative', but .* are \['large'\]"):
        pipeline.run()


def test_tagged_outputs_are_dropped_without_with_outputs(pipeline: Any) -> None:
    """Also where more steps follow, and by functions."""
    with pipeline as p:
        elements = p | beam.Create([-1, 2])
        check([2], elements | "sort them" >> beam.ParDo(Sort()))
        check(["2"], elements | "sort again" >> beam.ParDo(Sort()) | beam.Map(str))
        check([2], elements | "tag" >> beam.Map(lambda n: n if n > 0 else TaggedOutput("negative", n)))


# --- Partition


def test_each_element_is_in_one_of_the_partitions(pipeline: Any) -> None:
    """By a function of the element and their number, with further arguments and side inputs."""

    def by_remainder(x: int, n: int, plus: int, times: int) -> int:
        return (x * times + plus) % n

    with pipeline as p:
        times = p | "times" >> beam.Create([1])
        parts = p | beam.Create(range(7)) | beam.Partition(by_remainder, 3, 1, beam.pvalue.AsSingleton(times))
        for i, expected in enumerate([[2, 5], [0, 3, 6], [1, 4]]):
            check(expected, parts[i])


def test_a_partition_may_be_empty(pipeline: Any) -> None:
    """Nothing has to go into it."""
    with pipeline as p:
        parts = p | beam.Create([1]) | beam.Partition(lambda x, n: 0, 2)
        check([1], parts[0])
        check([0], parts[1] | beam.combiners.Count.Globally())


# --- Flatten


def test_several_pcollections_become_one(pipeline: Any) -> None:
    """Any number of them, one of them twice, with results computed from each."""
    with pipeline as p:
        a, b, empty = p | "a" >> beam.Create([1, 2]), p | "b" >> beam.Create([3]), p | "c" >> beam.Create([])
        check([1, 2, 3], (a, b, empty) | "all" >> beam.Flatten())
        check([1, 2, 1, 2], (a, a) | "twice" >> beam.Flatten())
        check([1, 2, 3], {a, b} | "a set" >> beam.Flatten())
        check([3], [b] | "one" >> beam.Flatten())
        check([], () | "none" >> beam.Flatten(pipeline=p))
        tens = a | "tens" >> beam.Map(lambda x: 10 * x)
        mapped = (tens, b) | "mapped" >> beam.Flatten() | beam.Map(lambda x: x + 1)
        check([11, 21, 4], mapped)
        with_others = a | beam.FlattenWith(b, "d" >> beam.Create([4]))
        check([1, 2, 3, 4], with_others)


def test_flattened_elements_keep_their_timestamps_and_windows(pipeline: Any) -> None:
    """And are grouped with those of the other inputs."""
    with pipeline as p:
        parts = [
            p
            | f"create {i}" >> beam.Create([TimestampedValue(("k", i), t) for t in (1, 11)])
            | f"window {i}" >> beam.WindowInto(FixedWindows(10))
            for i in (1, 100)
        ]
        summed = parts | beam.Flatten() | beam.CombinePerKey(sum)
        ends = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
        expected = [TestWindowedValue(("k", 101), w.max_timestamp(), [w]) for w in ends]
        check(expected, summed, reify_windows=True)


def test_groupings_of_a_flatten_of_groupings(pipeline: Any) -> None:
    """Results of shuffles flow together into another one."""
    with pipeline as p:
        pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3)])
        sums, counts = pairs | beam.CombinePerKey(sum), pairs | beam.combiners.Count.PerKey()
        both = (sums, counts, pairs) | beam.Flatten() | beam.GroupByKey()
        in_order = both | beam.MapTuple(lambda k, values: (k, sorted(values)))
        check([("a", [1, 2, 3, 4]), ("b", [1, 2, 2])], in_order)


# --- Tee


def test_a_tee_gives_its_input_to_consumers_and_on(pipeline: Any) -> None:
    """Transforms, or functions of a PCollection."""
    with pipeline as p:
        doubled = p | beam.Create([1, 2]) | beam.Tee(_Check([10, 20]), lambda pcoll: None) | beam.Map(lambda x: 2 * x)
        check([2, 4], doubled)


class _Check(beam.PTransform):
    def __init__(self, expected: list[int]) -> None:
        super().__init__()
        self.expected = expected

    def expand(self, pcoll: Any) -> Any:
        tens = pcoll | beam.Map(lambda x: 10 * x)
        check(self.expected, tens)
        return tens


def test_the_results_of_nothing_are_those_of_an_empty_global_window(pipeline: Any) -> None:
    """Flatten of no inputs is windowed globally."""
    with pipeline as p:
        none = () | beam.Flatten(pipeline=p)
        assert GlobalWindow() in none.windowing.window_fn.assign_micros(0)
        check([0], none | beam.CombineGlobally(sum))
