"""The plan cut into segments, and that these compute what the local runner does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.runners.segments import MemorySink, run_in_this_process, spark_plan

import penstock as beam
from penstock.runners.execution.plan.segments import cut
from penstock.sdk.side_inputs import AsList, AsSingleton
from penstock.transforms.write import Write


def segments(pipeline: beam.Pipeline) -> list[str]:
    """Each segment as text: its label, what it makes for others, and what it waits for."""
    plan = spark_plan(pipeline)
    names = {i: node.producer.split("/")[0] for i, node in plan.graph.pcollections.items()}
    lines = []
    for segment in cut(plan):
        line = segment.label.replace("/Values", "")
        line += "".join(f" | shuffles for {label}" for label in segment.groupings)
        line += "".join(f" | stores {names[i]}" for i in segment.stores)
        line += "".join(f" | completes {names[i]}" for i in segment.side_outputs)
        line += "".join(f" | waits for {names[i]}" for i in sorted(segment.side_inputs))
        line += "".join(f" | writes {label}" for label in segment.sinks)
        lines.append(line + (" | runs for its effects" if segment.has_ends else ""))
    return lines


def numbers(pipeline: beam.Pipeline, label: str = "numbers") -> Any:
    return pipeline | label >> beam.Create([1, 2, 3, 4])


def plus(label: str, *side: Any) -> Any:
    """Adds the sum of side inputs to each number."""
    return label >> beam.Map(lambda x, *lists: x + sum(map(sum, lists)), *map(AsList, side))


def sink(label: str = "sink") -> Any:
    return label >> Write(MemorySink())


def test_without_a_shuffle_there_is_one_segment() -> None:
    """From the source to the sink."""
    p = beam.Pipeline()
    numbers(p) | plus("map") | sink()
    assert ["numbers → map → sink | writes sink"] == segments(p)


def test_a_shuffle_ends_one_segment_and_begins_another() -> None:
    """A combiner's fold belongs to the stage before the shuffle, a plain grouping's is a step after it."""
    p = beam.Pipeline()
    pairs = numbers(p) | "pair" >> beam.Map(lambda x: (x % 2, x))
    pairs | "sum" >> beam.CombinePerKey(sum) | "group" >> beam.GroupByKey() | sink()
    assert [
        "numbers → pair + sum | shuffles for sum",
        "sum → group | shuffles for group",
        "group → sink | writes sink",
    ] == segments(p)


def test_several_sources_have_segments_of_their_own() -> None:
    """The steps behind a Flatten run in each segment, and all segments feed the grouping behind it."""
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


def test_a_leaf_runs_for_its_effects() -> None:
    """A PCollection without consumers is computed all the same, beside a sink or alone."""
    p = beam.Pipeline()
    source = numbers(p)
    source | plus("print")
    source | sink()
    numbers(p, "only read")
    numbers(p, "others") | "pair" >> beam.Map(lambda x: (x, x)) | "group" >> beam.GroupByKey()
    assert [
        "numbers → print → sink | writes sink | runs for its effects",
        "only read | runs for its effects",
        "others → pair → group | shuffles for group",
        "group | runs for its effects",
    ] == segments(p)


def test_several_sinks_are_written_in_one_pass() -> None:
    """Each consumer of a PCollection is a step of the same segment."""
    p = beam.Pipeline()
    source = numbers(p)
    source | sink("first")
    source | plus("map") | sink("second")
    assert ["numbers → first → map → second | writes first | writes second"] == segments(p)


def test_a_side_input_is_complete_before_the_segment_that_waits_for_it() -> None:
    """The whole segment waits, so that nothing has to be stored."""
    p = beam.Pipeline()
    main = numbers(p, "main") | plus("early")
    main | plus("late", numbers(p, "side") | plus("made")) | sink()
    assert [
        "side → made | completes made",
        "main → early → late → sink | waits for made | writes sink",
    ] == segments(p)


def test_a_segment_behind_a_shuffle_waits_as_well() -> None:
    """The side input comes first, wherever in the pipeline it stands."""
    p = beam.Pipeline()
    sums = numbers(p) | "pair" >> beam.Map(lambda x: (x, x)) | "sum" >> beam.CombinePerKey(sum)
    sums | "use" >> beam.Map(lambda pair, side: pair, AsList(numbers(p, "side"))) | sink()
    assert [
        "numbers → pair + sum | shuffles for sum",
        "side | completes side",
        "sum → use → sink | waits for side | writes sink",
    ] == segments(p)


def test_a_side_input_made_of_the_main_input_has_the_main_input_stored() -> None:
    """The step that waits for the side input gets a segment of its own."""
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
    """Two consumers that wait for different things are two segments; as one it would wait for itself."""
    p = beam.Pipeline()
    source = numbers(p)
    total = source | "total" >> beam.CombineGlobally(sum).without_defaults()
    shifted = source | "shift" >> beam.Map(lambda x, t: x - t, AsSingleton(total))
    least = shifted | "least" >> beam.CombineGlobally(min).without_defaults()
    source | "scale" >> beam.Map(lambda x, m: x * m, AsSingleton(least)) | sink()
    combined = {name: f"{name}/CombinePerKey" for name in ("total", "least")}
    assert [
        f"numbers → total/KeyWithVoid + {combined['total']} | shuffles for {combined['total']} | stores numbers",
        f"{combined['total']} → total/UnKey | completes total",
        f"shift + least/KeyWithVoid + {combined['least']} | shuffles for {combined['least']} | waits for total",
        f"{combined['least']} → least/UnKey | completes least",
        "scale → sink | waits for least | writes sink",
    ] == segments(p)


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
    """One pass over the input does both; what waits is written by another."""
    p = beam.Pipeline()
    source = numbers(p)
    source | sink("first")
    source | plus("make") | plus("use", numbers(p, "side")) | sink("second")
    numbers(p, "other") | plus("use all", source) | sink("third")
    assert [
        "numbers → first → make | stores make | completes numbers | writes first",
        "side | completes side",
        "use → second | waits for side | writes second",
        "other → use all → third | waits for numbers | writes third",
    ] == segments(p)


def test_a_flatten_of_what_waits_and_what_does_not_takes_each_element_once() -> None:
    """The PCollection that is stored for the stage that waits goes on to the Flatten where it is stored, only there."""
    p = beam.Pipeline()
    source = numbers(p)
    kept = MemorySink()
    waiting = source | plus("use", source | plus("make"))
    (source, waiting) | beam.Flatten() | Write(kept)
    run_in_this_process(p)
    assert [1, 2, 3, 4, 11, 12, 13, 14] == sorted(kept.values)


def test_a_stage_may_wait_in_one_segment_and_run_in_another() -> None:
    """It then takes what was stored for it, not what was stored for others."""
    p = beam.Pipeline()
    early, late = numbers(p, "early"), numbers(p, "late")
    late = late | plus("map", early)
    both = (early, late) | "both" >> beam.Flatten()
    both | plus("first", early) | sink()
    both | plus("second", late) | sink("second sink")
    assert [
        "early → both | stores both | completes early",
        "first → sink | waits for early | writes sink",
        "late → map → both → first → sink | stores both | completes map | waits for early | writes sink",
        "second → second sink | waits for map | writes second sink",
    ] == segments(p)


# Any graph: PCollections of integers, and transforms that are given some of those that are there.

TRANSFORMS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (1, lambda label, a: a | label >> beam.Map(lambda x: x + 1)),
    "odd": (1, lambda label, a: a | label >> beam.Filter(lambda x: x % 2)),
    "twice": (1, lambda label, a: a | label >> beam.FlatMap(lambda x: [x, -x])),
    "flatten": (2, lambda label, a, b: (a, b) | label >> beam.Flatten()),
    "sum": (1, lambda label, a: _keyed(label, a) | f"{label} sum" >> beam.CombinePerKey(sum) | f"{label} +" >> _plus()),
    "group": (
        1,
        lambda label, a: (
            _keyed(label, a)
            | f"{label} group" >> beam.GroupByKey()
            | f"{label} size" >> beam.MapTuple(lambda key, values: key + len(list(values)))
        ),
    ),
    "side": (2, lambda label, a, b: a | label >> beam.Map(lambda x, side: (x + sum(side)) % 1009, AsList(b))),
    "sides": (
        3,
        lambda label, a, b, c: a | label >> beam.Map(lambda x, b, c: x + len(b) - len(c), AsList(b), AsList(c)),
    ),
    "tagged": (1, lambda label, a: _tagged(label, a)),
}


def _keyed(label: str, pcoll: Any) -> Any:
    return pcoll | f"{label} key" >> beam.Map(lambda x: (x % 3, x))


def _plus() -> beam.PTransform:
    return beam.MapTuple(lambda key, total: (key + total) % 1009)


def _tagged(label: str, pcoll: Any) -> Any:
    split = beam.FlatMap(lambda x: [beam.TaggedOutput("even", x)] if x % 2 == 0 else [x])
    outputs = pcoll | label >> split.with_outputs("even", main="odd")
    return (outputs.odd | f"{label} odd" >> beam.Map(lambda x: x - 1), outputs.even) | f"{label} both" >> beam.Flatten()


@given(st.data())
def test_any_graph_computes_what_the_local_runner_computes(data: st.DataObject) -> None:
    """Random pipelines, every PCollection of which may be a main input, a side input and written."""
    names = data.draw(st.lists(st.sampled_from(sorted(TRANSFORMS)), max_size=9))
    choices = [data.draw(st.tuples(*[st.integers(0, 20)] * TRANSFORMS[name][0])) for name in names]
    written = data.draw(st.sets(st.integers(0, len(names) + 1), min_size=1))
    sources = data.draw(st.lists(st.lists(st.integers(-9, 9), max_size=5), min_size=1, max_size=2))

    def build() -> tuple[beam.Pipeline, list[MemorySink]]:
        p = beam.Pipeline()
        made: list[Any] = [p | f"source {i}" >> beam.Create(values) for i, values in enumerate(sources)]
        for i, (name, chosen) in enumerate(zip(names, choices, strict=True)):
            made.append(TRANSFORMS[name][1](f"{i} {name}", *(made[c % len(made)] for c in chosen)))
        sinks = []
        for i in sorted({i % len(made) for i in written}):
            sinks.append(MemorySink())
            made[i] | f"sink {i}" >> Write(sinks[-1])
        return p, sinks

    expected, expected_sinks = build()
    expected.run()
    actual, actual_sinks = build()
    run_in_this_process(actual)
    assert [sorted(s.values) for s in expected_sinks] == [sorted(s.values) for s in actual_sinks]
