"""Beam's `IOTypeHints`, types of tagged outputs, and annotations that don't count."""

from collections.abc import Iterable, Iterator
from typing import Literal

import pytest

import penstock as beam
from penstock.beam.typehints.io_type_hints import IOTypeHints, WithTypeHints, get_type_hints
from penstock.sdk.dofn.dofn import FlatMapDoFn
from penstock.sdk.typehints import callables
from penstock.typehints import KV, Any, Dict, List, Tuple, no_annotations, with_input_types, with_output_types


def length(word: str, minimum: int = 0) -> int:
    return max(len(word), minimum)


def letters(word: str) -> list[str]:
    return list(word)


class Parse(beam.DoFn):
    def process(self, line: str) -> Iterable[int | beam.TaggedOutput[Literal["errors", "rest"], str]]:
        try:
            yield int(line)
        except ValueError:
            yield beam.TaggedOutput("errors", line)


@with_input_types(str)
@with_output_types(int, errors=str)
class DeclaredParse(beam.DoFn):
    def process(self, line):
        yield int(line)


@with_input_types(int)
@with_output_types(str)
class Spell(beam.PTransform):
    def expand(self, pcoll):
        assert str is self.get_type_hints().simple_output_type(self.label)
        return pcoll | beam.Map(str)


class Lengths(beam.PTransform):
    def expand(self, words: beam.PCollection[str]) -> beam.PCollection[int]:
        return words | beam.Map(lambda word: len(word))


def test_a_composites_annotations_are_its_types():
    p = beam.Pipeline()
    assert int is (p | beam.Create(["a"]) | Lengths()).element_type
    with pytest.raises(
        beam.typehints.TypeCheckError,
        match="Input type hint violation at again: expected <class .str.>, got <class .int.>",
    ):
        _ = p | "numbers" >> beam.Create([1]) | "again" >> Lengths()


def test_hints_are_kept_in_beams_types():
    hints = IOTypeHints.empty().with_input_types(int, name=list[str]).with_output_types(KV[str, int], errors=str)
    assert ((int,), {"name": List[str]}) == hints.input_types
    assert KV[str, int] == hints.simple_output_type("step")
    assert {"errors": str} == hints.tagged_output_types()
    assert "IOTypeHints[inputs=((<class 'int'>,), {}), outputs=None]" == repr(IOTypeHints.empty().with_input_types(int))


def test_hints_without_types_have_none():
    assert (None, None) == IOTypeHints.empty()
    assert IOTypeHints.empty().simple_output_type("step") is None
    assert not IOTypeHints.empty().has_simple_output_type()
    assert {} == IOTypeHints.empty().tagged_output_types()
    assert IOTypeHints.from_callable(lambda x: x) is None


def test_several_output_types_are_refused_where_one_is_expected():
    with pytest.raises(TypeError, match="step: expected one output type"):
        IOTypeHints.empty().with_output_types(int, str).simple_output_type("step")


def test_missing_hints_are_taken_from_others():
    others = IOTypeHints.empty().with_input_types(str).with_output_types(str)
    assert (((int,), {}), ((str,), {})) == IOTypeHints.empty().with_input_types(int).with_defaults(others)


@pytest.mark.parametrize("hint", [list[int], List[int], list[int] | None, tuple[int, ...], Iterable[int]])
def test_the_type_of_elements_is_that_of_the_iterable(hint):
    assert int is IOTypeHints.empty().with_output_types(hint).strip_iterable().simple_output_type("step")


def test_a_type_that_is_no_iterable_has_no_elements():
    with pytest.raises(ValueError, match="not iterable"):
        IOTypeHints.empty().with_output_types(int).strip_iterable()


@pytest.mark.parametrize(
    ("subject", "inputs", "outputs"),
    [
        (beam.Map(length), ((str,), {}), ((int,), {})),
        (beam.Map(length).with_output_types(float), ((str,), {}), ((float,), {})),
        (beam.Map(lambda x: x), None, None),
        (beam.FlatMap(letters), ((str,), {}), ((str,), {})),
        (beam.Map(length).with_output_types(int, errors=str), ((str,), {}), ((int,), {"errors": str})),
        ("Labelled" >> beam.Map(length), ((str,), {}), ((int,), {})),
        (beam.ParDo(Parse()), ((str,), {}), ((int,), {"errors": str, "rest": str})),
        (beam.ParDo(DeclaredParse()), ((str,), {}), ((int,), {"errors": str})),
        (DeclaredParse(), ((str,), {}), ((int,), {"errors": str})),
        (Parse().with_output_types(bytes), ((str,), {}), ((bytes,), {})),
        (Lengths(), ((str,), {}), ((int,), {})),
        (Lengths().with_input_types(bytes), ((bytes,), {}), ((int,), {})),
        (Spell(), ((int,), {}), ((str,), {})),
        (Spell().with_input_types(bool), ((bool,), {}), ((str,), {})),
    ],
)
def test_transforms_and_dofns_tell_their_types(subject, inputs, outputs):
    assert (inputs, outputs) == subject.get_type_hints()


def test_declared_types_of_a_function_are_told():
    @with_input_types(int)
    @with_output_types(str)
    def spell(n):
        return str(n)

    assert (((int,), {}), ((str,), {})) == get_type_hints(spell)
    assert (None, None) == get_type_hints(length)


def test_a_composite_reads_its_types_in_expand():
    assert ["1"] == [1] | Spell()


@with_output_types(list[int], errors=list[str])
def parse_all(line):
    for word in line.split():
        yield beam.TaggedOutput("errors", word) if word.isalpha() else int(word)


@pytest.mark.parametrize(
    "transform",
    [
        beam.ParDo(Parse()),
        beam.ParDo(DeclaredParse()),
        beam.FlatMap(parse_all),
        beam.Map(length).with_output_types(int, errors=str),
        "Labelled" >> beam.Map(length).with_output_types(int, errors=str),
        beam.Map(length).with_output_types(numbers=int, errors=str),
    ],
)
def test_tagged_outputs_have_their_types(transform):
    p = beam.Pipeline()
    numbers, errors = p | beam.Create(["1"]) | transform.with_outputs("errors", main="numbers")
    assert (int, str) == (numbers.element_type, errors.element_type)


def test_an_output_that_exists_once_accessed_has_its_type():
    p = beam.Pipeline()
    outputs = p | beam.Create(["1"]) | beam.ParDo(Parse()).with_outputs()
    assert str is outputs.errors.element_type


def test_a_mismatch_after_a_tagged_output_is_found():
    p = beam.Pipeline()
    _, errors = p | beam.Create(["1"]) | beam.ParDo(Parse()).with_outputs("errors", main="numbers")
    with pytest.raises(beam.typehints.TypeCheckError):
        _ = errors | beam.Map(lambda n: n).with_input_types(int)


def test_annotations_can_be_ignored():
    @no_annotations
    def wrong(word: int) -> int:
        return word

    assert ["a"] == ["a"] | beam.Map(wrong)
    assert (None, None) == beam.Map(wrong).get_type_hints()


def test_all_annotations_can_be_ignored(monkeypatch):
    monkeypatch.setattr(callables, "_are_used", True)
    beam.typehints.disable_type_annotations()
    assert (None, None) == beam.Map(length).get_type_hints()


def test_a_functions_parameters_of_every_kind_have_types():
    def fn(a: int, b=None, *args: str, key: list[int], **kwargs: float) -> None: ...

    hints = IOTypeHints.from_callable(fn)
    positional, named = hints.input_types
    assert (int, Any, Tuple[str, ...]) == positional
    assert {"key": List[int], "kwargs": Dict[str, float]} == named
    assert ((None,), {}) == hints.output_types
    assert ((str, Any), {}) == IOTypeHints.from_callable(str.strip).input_types


def test_hints_tell_where_they_were_declared():
    hints = IOTypeHints.empty().with_input_types(str).with_output_types(int)
    assert "test_io_type_hints" in hints.origin[0]
    assert hints.debug_str().index("with_output_types() at") < hints.debug_str().index("with_input_types() at")
    assert hints is hints.with_defaults(IOTypeHints.empty())
    assert "based on" in IOTypeHints.empty().with_defaults(hints).debug_str()


def test_default_types_count_before_those_of_the_class_and_behind_those_of_an_instance():
    @with_input_types(int)
    @with_output_types(str)
    class Step(WithTypeHints):
        def default_type_hints(self):
            return IOTypeHints.empty().with_input_types(float)

    assert ((float,), {}) == Step().get_type_hints().input_types
    assert ((str,), {}) == Step().get_type_hints().output_types
    assert ((bytes,), {}) == Step().with_input_types(bytes).get_type_hints().input_types


def test_an_annotated_expand_is_any_where_it_tells_nothing(caplog):
    class Bare(beam.PTransform):
        def expand(self, pcoll: beam.pvalue.PCollection[int]): ...

    class Wrong(beam.PTransform):
        def expand(self, pcoll: int) -> beam.pvalue.PCollection[str]: ...

    assert (((int,), {}), ((Any,), {})) == Bare().get_type_hints()[:2]
    assert not caplog.records
    assert (None, ((str,), {})) == Wrong().get_type_hints()[:2]
    assert "the input is annotated as <class 'int'>, which is ignored" in caplog.text


def test_default_types_of_the_base_class_are_those_of_annotations():
    """So that an override can change them, as in Beam."""

    class Parse(beam.DoFn):
        def process(self, element: str) -> Iterator[float]:
            yield int(element)

        def default_type_hints(self):
            return super().default_type_hints().with_output_types(int)

    class Parsed(beam.PTransform):
        def expand(self, pcoll: beam.PCollection[str]) -> beam.PCollection[bytes]:
            return pcoll | beam.ParDo(Parse())

        def default_type_hints(self):
            return super().default_type_hints().with_output_types(int)

    class Bare(beam.DoFn):
        def process(self, element):
            yield element

    expected = IOTypeHints.empty().with_input_types(str).with_output_types(int)
    assert expected == Parse().default_type_hints() == Parse().get_type_hints() == beam.ParDo(Parse()).get_type_hints()
    assert expected == Parsed().get_type_hints()
    assert IOTypeHints.empty() == Bare().default_type_hints()
    with beam.Pipeline() as p:
        lines = p | beam.Create(["1"])
        assert (int, int) == ((lines | beam.ParDo(Parse())).element_type, (lines | Parsed()).element_type)


def test_a_filter_has_the_type_that_its_function_takes():
    def is_small(n: int) -> bool:
        return n < 3

    @with_input_types(int)
    def is_large(n):
        return n > 3

    expected = IOTypeHints.empty().with_input_types(int).with_output_types(int)
    assert [expected] * 2 == [beam.Filter(fn).get_type_hints() for fn in (is_small, is_large)]
    assert IOTypeHints.empty() == beam.Filter(lambda n: n > 3).get_type_hints()
    declared = beam.Filter(lambda n: n > 3).with_input_types(int).get_type_hints()
    assert IOTypeHints.empty().with_input_types(int) == declared


def test_the_dofn_of_a_function_has_the_types_of_its_annotations():
    def split(line: str) -> list[int]:
        return [len(line)]

    expected = IOTypeHints.empty().with_input_types(str).with_output_types(int)
    dofn = FlatMapDoFn(split, fullargspec=None)
    assert [expected] * 2 == [dofn.default_type_hints(), dofn.get_type_hints()]
