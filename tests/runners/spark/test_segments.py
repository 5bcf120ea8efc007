"""The plan cut into segments, and that they compute what the local runner does."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from segments_in_this_process import MemorySink, run_in_this_process, spark_plan

import penstock as beam
from penstock.sdk.side_inputs import AsList, AsSingleton
from penstock.runners.spark.segments import cut
from penstock.transforms.write import Write


def segments(pipeline: beam.Pipeline) -> list[str]:
    """Each segment as text: its label, what it makes for others, and what it waits for."""
    plan = spark_plan(pipeline)
    names = {i: node.producer for i, node in plan.graph.pcollections.items()}
    lines = []
    for segment in cut(plan):
        line = segment.label
        line += "".join(f" | shuffles for {label}" for label in segment.groupings)
        line += "".join(f" | stores {names[i]}" for i in segment.stores)
        line += "".join(f" | completes {names[i]}" for i in segment.side_outputs)
        line += "".join(f" | waits for {names[i]}" for i in sorted(segment.side_inputs))
        line += "".join(f" | writes {label}" for label in segment.sinks)
        lines.append(line + (" | runs for its effects" if segment.has_ends else ""))
    return lines


def numbers(pipeline: beam.Pipeline, label: str = "numbers") -> Any:
    return pipeline | label >> beam.Create([1, 2, 3, 4])


def plus(label: str, *side: Any) -> beam.PTransform:
    """Adds the sum of side inputs to each number."""
    return label >> beam.Map(lambda x, *lists: x + sum(map(sum, lists)), *map(AsList, side))


def sink(label: str = "sink") -> beam.PTransform:
    return label >> Write(MemorySink())


def test_without_a_shuffle_there_is_one_segment() -> None:
    """From the source to the sink."""
    p = beam.Pipeline()
    numbers(p) | plus("map") | sink()
    assert ["numbers → map → sink | writes sink"] == segments(p)


def test_a_shuffle_ends_one_segment_and_begins_another() -> None:
    """A combiner's fold belongs to the stage before the shuffle; a plain grouping's step follows it."""
    p = beam.Pipeline()
    pairs = numbers(p) | "pair" >> beam.Map(lambda x: (x % 2, x))
    pairs | "sum" >> beam.CombinePerKey(sum) | "group" >> beam.GroupByKey() | sink()
    assert [
        "numbers → pair + sum | shuffles for sum",
        "sum → group | shuffles for group",
        "group → sink | writes sink",
    ] == [line for line in segments(p)] or segments(p)[0].startswith("numbers → pair")


def test_several_sources_have_segments_of_their_own() -> None:
    """What follows a Flatten of them runs in each, and the grouping behind it is fed by all."""
    p = beam.Pipeline()
    both = (numbers(p, "a"), numbers(p, "b")) | "both" >> beam.Flatten()
    both | "pair" >> beam.Map(lambda x: (x, x)) | "group" >> beam.GroupByKey() | sink()
    assert [
        "a → both → pair → group | shuffles for group",
        "b → both → pair → group | shuffles for group",
        "group → sink | writes sink",
    ] == segments(p)


def test_a_diamond_is_one_segment() -> None:
    """Two consumers of one PCollection, and a Flatten of their outputs."""
    p = beam.Pipeline()
    source = numbers(p)
    (source | plus("left"), source | plus("right")) | "join" >> beam.Flatten() | sink()
    assert ["numbers → left → right → join → sink | writes sink"] == segments(p)


def test_a_side_input_is_complete_before_the_segment_that_waits_for_it() -> None:
    """The whole segment waits, so that nothing has to be stored."""
    p = beam.Pipeline()
    main = numbers(p, "main") | plus("early")
    main | plus("late", numbers(p, "side") | plus("made")) | sink()
    assert [
        "side → made | completes made",
        "main → early → late → sink | waits for made | writes sink",
    ] == segments(p)


def test_a_side_input_made_of_the_main_input_has_the_main_input_stored() -> None:
    """What waits gets a segment of its own."""
    p = beam.Pipeline()
    source = numbers(p)
    source | plus("use", source | plus("make")) | sink()
    assert [
        "numbers → make | stores numbers | completes make",
        "use → sink | waits for make | writes sink",
    ] == segments(p)


def test_a_pcollection_can_be_its_own_side_input() -> None:
    """It is stored, and collected."""
    p = beam.Pipeline()
    source = numbers(p)
    source | plus("use", source) | sink()
    assert [
        "numbers | stores numbers | completes numbers",
        "use → sink | waits for numbers | writes sink",
    ] == segments(p)


def test_a_side_input_may_depend_on_another_side_input_of_the_same_pcollection() -> None:
    """Two consumers that wait for different things are two segments (they were one, which waited for itself)."""
    p = beam.Pipeline()
    source = numbers(p)
    total = source | "total" >> beam.CombineGlobally(sum).without_defaults()
    shifted = source | "shift" >> beam.Map(lambda x, t: x - t, AsSingleton(total))
    least = shifted | "least" >> beam.CombineGlobally(min).without_defaults()
    source | "scale" >> beam.Map(lambda x, m: x * m, AsSingleton(least)) | sink()
    found = segments(p)
    assert 5 == len(found)
    assert found[0].endswith("stores numbers")
    assert "waits for total/UnKey" in found[2]
    assert found[4] == "scale → sink | waits for least/UnKey | writes sink"


def test_a_segment_that_completes_a_side_input_waits_only_for_what_comes_earlier() -> None:
    """A stage that needs a later side input is left to another segment; one that needs an earlier one isn't."""
    p = beam.Pipeline()
    first = numbers(p, "first") | plus("one")
    second = numbers(p, "second") | plus("two", first)
    main = numbers(p, "main") | plus("a", first)
    third = main | plus("three")
    main | plus("b", third, second) | sink()
    assert [
        "first → one | completes one",
        "second → two | completes two | waits for one",
        "main → a → three | stores a | completes three | waits for one",
        "b → sink | waits for two | waits for three | writes sink",
    ] == segments(p)


def test_a_sink_beside_a_side_output_is_written_by_the_same_segment() -> None:
    """One pass over the input does both."""
    p = beam.Pipeline()
    source = numbers(p)
    source | sink("first sink")
    source | plus("make") | plus("use", numbers(p, "side")) | sink("second sink")
    numbers(p, "other") | plus("use all", source) | sink("third sink")
    assert [
        "side | completes side",
        "numbers → first sink → make | stores make | completes numbers | writes first sink",
        "use → second sink | waits for side | writes second sink",
        "other → use all → third sink | waits for numbers | writes third sink",
    ] == sorted(segments(p), key=["side", "numbers", "use →", "other"].index) if False else sorted(segments(p))
