"""Errors that are raised before the pipeline runs, and their messages."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.pipelines.checks import check

import penstock as beam
from penstock.sdk.errors import (
    DuplicateLabelError,
    OptionsError,
    PipelineError,
    RunnerError,
    SerializationError,
    SinkError,
    SourceError,
    TypeHintError,
    UnsupportedError,
)
from penstock.sdk.options import PipelineOptions
from penstock.sdk.runs.run_on_values import CollectingSink
from penstock.sdk.sources.bounded import BoundedSource
from penstock.testing import TestPipeline
from penstock.windowing import NonMergingWindowFn


def refusal(build: Any, kind: type[Exception]) -> str:
    """The message of what building or running raises, which is of this class."""
    with pytest.raises(kind) as error:
        build()
    return str(error.value)


# --- Labels


def test_two_transforms_of_one_label_are_refused(pipeline: Any) -> None:
    """The message says how to give one of them another."""
    words = pipeline | beam.Create(["a"])
    _ = words | beam.Map(len)
    message = refusal(lambda: words | beam.Map(len), DuplicateLabelError)
    expected = (
        'A transform with label "Map(len)" already exists in the pipeline. '
        'Give this one a label of its own: "some label" >> ...'
    )
    assert expected == message


def test_labels_of_different_composites_do_not_meet(pipeline: Any) -> None:
    """Within one they do, and the full label is named."""

    class Twice(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | beam.Map(str) | beam.Map(str)

    words = pipeline | beam.Create(["a"])
    message = refusal(lambda: words | "Outer" >> Twice(), DuplicateLabelError)
    assert message.startswith('A transform with label "Outer/Map(str)" already exists in the pipeline')


# --- Options


class Sized(PipelineOptions):
    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--errors_size", type=int, default=1)


def test_an_option_of_the_wrong_type_is_refused(runner_name: str) -> None:
    """The message has the expected type and the one found."""
    flags = [f"--runner={runner_name}", "--errors_size=large"]
    message = refusal(lambda: beam.Pipeline(argv=flags).options.view_as(Sized), OptionsError)
    assert "option --errors_size: expected an int, got 'large'" == message


@pytest.mark.parametrize(
    ("flag", "advice"),
    [
        ("--errors_siez=3", "did you mean --errors_size?"),
        ("--spark_mastr=local", "did you mean --spark_master?"),
        ("--xyzzy", "is it an option of your own? Then declare it in a subclass of PipelineOptions"),
    ],
)
def test_an_unknown_option_is_refused_and_the_nearest_one_named(runner_name: str, flag: str, advice: str) -> None:
    """When the pipeline is made."""
    message = refusal(lambda: beam.Pipeline(argv=[f"--runner={runner_name}", flag]), OptionsError)
    assert f"unknown option {flag.partition('=')[0]}; {advice}" == message


def test_an_unknown_runner_is_refused_and_the_nearest_one_named() -> None:
    """With all that are installed."""
    message = refusal(lambda: beam.Pipeline(runner="spark-bach"), RunnerError)
    assert message.startswith(
        "--runner=spark-bach: there is no such runner; did you mean 'spark-batch'? Installed: local"
    )


def test_what_failed_to_be_applied_may_be_applied_again(pipeline: Any) -> None:
    """Its label is free, and nothing of it is left: as in a notebook, where the cell is corrected."""

    class Fails(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            pcoll | "half" >> beam.Map(lambda x: 1 / 0)
            raise LookupError("not yet")

    with pipeline as p:
        numbers = p | beam.Create([1])
        for _ in range(2):
            refusal(lambda: numbers | "mine" >> Fails(), LookupError)
        check([2], numbers | "mine" >> beam.Map(lambda x: x + 1))


def test_what_is_raised_within_the_block_is_raised_and_nothing_runs(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """The pipeline isn't finished."""

    def build() -> None:
        with pipeline as p:
            _ = p | beam.Create([1]) | beam.Map(lambda x: (tmp_path / "ran").touch())
            raise LookupError("not yet")

    assert "not yet" == refusal(build, LookupError)
    assert not (tmp_path / "ran").exists()


# --- Functions and classes


def test_a_class_instead_of_an_object_is_refused(pipeline: Any) -> None:
    """Wherever one is taken."""

    class Split(beam.DoFn):
        def process(self, element: str) -> Iterator[str]:
            yield from element

    class Count(beam.PTransform):
        pass

    words = pipeline | beam.Create(["a"])
    combine_fn = beam.combiners.MeanCombineFn
    asked = "did you forget to call it"
    assert f"got the class Split; {asked}: Split()?" == refusal(lambda: words | beam.ParDo(Split), TypeError)
    assert f"got the class Count; {asked}: Count()?" == refusal(lambda: words | Count, TypeError)
    message = f"got the class MeanCombineFn; {asked}: MeanCombineFn()?"
    assert message == refusal(lambda: words | beam.CombineGlobally(combine_fn), TypeError)
    assert message == refusal(lambda: words | beam.CombinePerKey(combine_fn), TypeError)
    assert "expected a WindowFn such as FixedWindows(60)" in refusal(lambda: beam.WindowInto(60), TypeError)


def test_what_is_no_transform_is_refused(pipeline: Any) -> None:
    """A function is probably to be wrapped."""
    words = pipeline | beam.Create(["a"])
    message = refusal(lambda: words | len, TypeError)
    assert "expected a PTransform, got <built-in function len>; did you forget to wrap it in Map or ParDo?" == message
    message = refusal(lambda: words | beam.Map("len"), TypeError)
    assert "Map: expected a function, got 'len'" == message


def test_a_forgotten_return_is_told(pipeline: Any) -> None:
    """An expand without a result."""

    class Forgetful(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            pcoll | beam.Map(str)

    message = refusal(lambda: pipeline | beam.Create([1]) | Forgetful() | "next" >> beam.Map(str), PipelineError)
    expected = "next: it is applied to None; did the expand of the transform before it return no PCollection?"
    assert expected == message


def test_flatten_names_an_input_that_is_no_pcollection(pipeline: Any) -> None:
    """A transform, several PCollections as one input, and a number."""
    words = pipeline | beam.Create(["a"])
    found = [("a" >> beam.Create([1]), "apply it to the pipeline first"), ((words, words), "unpack them"), (5, "is 5")]
    for label, (found_input, expected) in enumerate(found):
        message = refusal(lambda: (words, found_input) | f"{label}" >> beam.Flatten(), TypeError)
        assert message.startswith(f"{label}: expected PCollections, but input 1 is ")
        assert expected in message
    message = refusal(lambda: words | beam.FlattenWith(5), TypeError)
    assert "FlattenWith: expected PCollections and transforms, got 5" == message


def test_arguments_that_do_not_fit_are_refused(pipeline: Any) -> None:
    """Too many, too few, of an unknown name."""

    def repeat(word: str, times: int) -> str:
        return word * times

    words = pipeline | beam.Create(["a"])
    for arguments, keywords in [((), {}), ((1, 2), {}), ((), {"tmies": 2})]:
        message = refusal(lambda a=arguments, k=keywords: words | beam.Map(repeat, *a, **k), PipelineError)
        assert message.startswith("Map(repeat): ")
        assert "repeat(word: 'str', times: 'int') can't be called with the element and the arguments given" in message


def test_what_no_runner_can_do_yet_is_refused_by_name(pipeline: Any) -> None:
    """A parameter that nothing would fill."""

    class Splittable(beam.DoFn):
        def process(self, element: Any, restriction: Any = beam.sdk.dofn.dofn.DoFnParam("RestrictionParam")) -> None:
            pass

    message = refusal(lambda: pipeline | beam.Create([1]) | "split" >> beam.ParDo(Splittable()), UnsupportedError)
    assert "split: DoFn.RestrictionParam is not supported by any runner yet" == message


# --- What can't travel


class Locked(beam.DoFn):
    def __init__(self) -> None:
        self.name = "fine"
        self.lock = threading.Lock()

    def process(self, element: Any) -> Iterator[Any]:
        yield element


def test_a_dofn_that_can_not_be_pickled_is_refused_and_the_attribute_named(pipeline: Any) -> None:
    """On every runner, so that a pipeline doesn't fail only where it is sent away."""
    message = refusal(lambda: pipeline | beam.Create([1]) | "locked" >> beam.ParDo(Locked()), SerializationError)
    assert message.startswith("locked: attribute 'lock' of Locked (lock) can't be pickled")
    assert "belong into DoFn.setup" in message


def test_a_function_that_can_not_be_pickled_is_refused_and_the_variable_named(pipeline: Any) -> None:
    """The variable is one that the function closes over."""
    lock = threading.Lock()

    def locked(element: Any) -> Any:
        with lock:
            return element

    message = refusal(lambda: pipeline | beam.Create([1]) | "locked" >> beam.Map(locked), SerializationError)
    assert message.startswith("locked: variable 'lock' of locked (lock) can't be pickled")


def test_an_argument_that_can_not_be_pickled_is_refused_and_named(pipeline: Any) -> None:
    """By its keyword; one without, by its type."""
    numbers = pipeline | beam.Create([1])
    by_name = beam.Map(lambda x, lock: x, lock=threading.Lock())
    message = refusal(lambda: numbers | "named" >> by_name, SerializationError)
    assert message.startswith("named: item 'lock' (lock) can't be pickled")
    by_position = beam.Map(lambda x, lock: x, threading.Lock())
    message = refusal(lambda: numbers | "placed" >> by_position, SerializationError)
    assert message.startswith("placed: lock can't be pickled")


def test_a_combiner_that_can_not_be_pickled_is_refused(pipeline: Any) -> None:
    """By its transform's label."""

    class LockedCombiner(beam.combiners.MeanCombineFn):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    pairs = pipeline | beam.Create([("a", 1)])
    message = refusal(lambda: pairs | "mean" >> beam.CombinePerKey(LockedCombiner()), SerializationError)
    assert message.startswith("mean: attribute 'lock' of LockedCombiner (lock) can't be pickled")


class LockedWindows(NonMergingWindowFn):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class LockedSource(BoundedSource[int]):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def split(self, desired_splits: int) -> list[int]:
        return [0]


class LockedSink(CollectingSink):
    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_windows_sources_and_sinks_that_can_not_be_pickled_are_refused(pipeline: Any) -> None:
    """Naming the transform and the attribute."""
    numbers = pipeline | beam.Create([1])
    refused = [
        lambda: numbers | "it" >> beam.WindowInto(LockedWindows()),
        lambda: pipeline | "it" >> beam.io.Read(LockedSource()),
        lambda: numbers | "it" >> beam.io.Write(LockedSink()),
    ]
    messages = [refusal(build, SerializationError) for build in refused]
    assert [f"it: attribute 'lock' of Locked{what} (lock)" for what in ("Windows", "Source", "Sink")] == [
        message.partition(" can't be pickled")[0] for message in messages
    ]


# --- Types


def test_a_type_that_the_next_transform_does_not_take_is_refused(pipeline: Any) -> None:
    """Both transforms are named, and both types."""

    def spell(n: int) -> str:
        return str(n)

    def double(n: int) -> int:
        return 2 * n

    spelled = pipeline | "numbers" >> beam.Create([1]) | "spell" >> beam.Map(spell)
    message = refusal(lambda: spelled | "double" >> beam.Map(double), TypeHintError)
    assert (
        "The transform 'double' requires PCollections of type '<class 'int'>' but was applied to a PCollection of type "
        "'<class 'str'>' (produced by the transform 'spell'). Type hint violation for 'double': "
        "requires <class 'int'> but got <class 'str'> for n"
    ) == message


def test_declared_types_are_checked_like_annotations(pipeline: Any) -> None:
    """With with_input_types, and of values in a Create."""
    words = pipeline | "words" >> beam.Create(["a"])
    message = refusal(lambda: words | "n" >> beam.Map(lambda n: n).with_input_types(int), TypeHintError)
    assert "The transform 'n' requires PCollections of type '<class 'int'>'" in message
    assert "(produced by the transform 'words/Values')" in message


def test_what_is_known_to_be_no_pair_is_refused_at_once(pipeline: Any) -> None:
    """Before a grouping meets the first of them."""
    words = pipeline | "words" >> beam.Create(["a"])
    message = refusal(lambda: words | "by key" >> beam.GroupByKey(), TypeHintError)
    expected = (
        "Input type hint violation at by key: expected Tuple[TypeVariable[K], TypeVariable[V]], got <class 'str'> "
        "(produced by the transform 'words/Values'); did you forget WithKeys, or a Map to a pair?"
    )
    assert expected == message


def test_type_checks_can_be_switched_off() -> None:
    """By a flag."""
    p = TestPipeline(argv=["--no_pipeline_type_check"])
    _ = p | beam.Create(["a"]) | beam.Map(lambda n: n).with_input_types(int)
    assert "DONE" == p.run().state


# --- Files


def test_a_missing_file_is_named(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """With the transform that was to read it, before anything runs."""
    missing = tmp_path / "missing.txt"

    def build() -> None:
        _ = pipeline | "the input" >> beam.io.ReadFromText(str(missing))
        pipeline.run()

    message = refusal(build, SourceError)
    assert "the input" in message
    assert str(missing) in message
    with pytest.raises(OSError):
        TestPipeline() | beam.io.ReadFromText(str(missing))


def test_an_output_that_can_not_be_written_is_named(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """Before anything is read: a file stands where its directory should be."""
    (tmp_path / "file").write_text("")
    read = tmp_path / "read"

    def note(element: Any) -> str:
        read.touch()
        return str(element)

    _ = (
        pipeline
        | beam.Create([1])
        | beam.Map(note)
        | "the output" >> beam.io.WriteToText(str(tmp_path / "file" / "out"))
    )
    message = refusal(pipeline.run, SinkError)
    assert "the output" in message
    assert str(tmp_path / "file") in message
    assert not read.exists()


def test_an_input_of_another_pipeline_is_refused(pipeline: Any, make_pipeline: Any) -> None:
    """Main inputs and those of a flatten."""
    other = make_pipeline() | "other" >> beam.Create([1])
    mine = pipeline | "mine" >> beam.Create([1])
    message = refusal(lambda: (mine, other) | beam.Flatten(), PipelineError)
    assert "the PCollections are of different pipelines" == message


def test_a_pcollection_can_not_be_iterated_over(pipeline: Any) -> None:
    """It has no elements until it is run, and then elsewhere."""
    message = refusal(lambda: list(pipeline | "some" >> beam.Create([1])), TypeError)
    expected = "PCollection[some/Values] can't be iterated over: its elements exist only while the pipeline runs"
    assert f"{expected}; collect(pcoll) runs it" == message


def test_a_generator_that_returns_a_value_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """The value is lost, as in Beam."""

    class Both(beam.DoFn):
        def process(self, n: int) -> Any:
            if not n:
                return [0]
            yield n

    class Filters(beam.DoFn):
        def process(self, n: int) -> Any:
            if not n:
                return
            yield n

    beam.ParDo(Filters())
    assert "" == caplog.text
    beam.ParDo(Both())
    assert f"Using yield and return in the process method of {Both}" in caplog.text
