"""Beam's names for the inference of types, and transforms with Beam's type hints."""

import pytest

import penstock as beam
from penstock.beam.typehints.trivial_inference import getcallargs_forhints, infer_return_type, instance_to_type
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import TypeHintError
from penstock.typehints import Any, Dict, List, Tuple


def test_beams_name_takes_and_returns_its_constraints():
    assert List[Tuple[str, int]] == infer_return_type(lambda d: list(d.items()), [Dict[str, int]])
    assert "Dict[Any, Any]" == repr(infer_return_type(counted, [List[str]]))
    hints = getcallargs_forhints(lambda line, *rest, n=0: None, str, int, float)
    assert hints["line"] is str
    assert Any == hints["n"]
    assert "Union" in repr(hints["rest"])


def test_built_in_transforms_have_beams_type_hints():
    assert "Tuple[TypeVariable[K], Iterable[TypeVariable[V]]]" == repr(
        beam.GroupByKey().get_type_hints().simple_output_type("GroupByKey")
    )
    assert beam.Map(lambda x: x).get_type_hints().output_types is None


def test_default_type_hints_of_a_users_transform_count():
    class Lengths(beam.PTransform):
        def default_type_hints(self):
            return beam.typehints.decorators.IOTypeHints.empty().with_input_types(str).with_output_types(int)

        def expand(self, words):
            return words | beam.Map(len)

    assert ((str,), {}) == Lengths().get_type_hints().input_types
    with pytest.raises(TypeHintError, match="Input type hint violation at Lengths: expected <class 'str'>, got"):
        _ = beam.Pipeline() | beam.Create([1]) | Lengths()


def test_an_empty_tuple_has_no_items():
    assert "Tuple[]" == repr(instance_to_type(()))


def counted(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def test_all_transforms_of_the_user_need_an_output_type_if_all_are_required():
    p = beam.Pipeline(options=PipelineOptions(["--type_check_strictness=ALL_REQUIRED"]))
    numbers = p | beam.Create([1]).with_output_types(int)
    _ = numbers | beam.Map(lambda n: (n, n)).with_output_types(tuple[int, int]) | beam.GroupByKey()
    with pytest.raises(TypeHintError, match="no output type-hint was found for the PTransform Map"):
        _ = numbers | "Plus" >> beam.Map(lambda n: n + 1)


def test_the_function_of_a_composite_may_ask_for_the_type_hints():
    @beam.ptransform_fn
    def Parsed(pcoll, type_hints):
        return pcoll | beam.Map(int).with_output_types(type_hints.output_types[0][0])

    p = beam.Pipeline()
    assert float is (p | beam.Create(["1"]) | Parsed().with_output_types(float)).hint
