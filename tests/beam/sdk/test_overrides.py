"""Transforms that are replaced by others."""

import pytest

import penstock as beam
from penstock.beam.overrides import PTransformOverride
from penstock.sdk.errors import PipelineError
from penstock.testing import TestPipeline, assert_that, equal_to


class Override(PTransformOverride):
    """Replaces the transform of a label."""

    def __init__(self, label, replacement):
        self.label, self.replacement = label, replacement

    def matches(self, applied_ptransform):
        return applied_ptransform.full_label == self.label

    def get_replacement_transform_for_applied_ptransform(self, applied_ptransform):
        return self.replacement


class Tripled(beam.PTransform):
    def expand(self, pcoll):
        return pcoll | "Once" >> beam.Map(lambda x: x) | "Thrice" >> beam.Map(lambda x: 3 * x)


def test_a_transform_and_a_composite_are_replaced():
    with TestPipeline() as p:
        numbers = p | beam.Create([1, 2])
        assert_that(numbers | "Times" >> beam.Map(lambda x: 2 * x), equal_to([3, 6]), "times")
        more = numbers | "Triple" >> Tripled() | "More" >> beam.Map(lambda x: x + 1)
        assert_that(more, equal_to([0, -1]), "composite")
        p.replace_all([Override("Times", Tripled()), Override("Triple", beam.Map(lambda x: -x))])
    assert "Times/Thrice" in p.applied_labels
    assert "Triple/Thrice" not in p.applied_labels


def test_a_replacement_takes_side_inputs_and_tags():
    class Added(beam.PTransform):
        def expand(self, inputs):
            numbers, side = inputs
            added = numbers | beam.Map(lambda x, n: x + n, beam.pvalue.AsSingleton(side))
            high = added | "High" >> beam.Filter(lambda x: x > 11)
            return {"low": added | "Low" >> beam.Filter(lambda x: x < 12), "high": high}

    def split(x, n):
        yield beam.pvalue.TaggedOutput("low" if x < n else "high", x)

    with TestPipeline() as p:
        side = p | "Side" >> beam.Create([10])
        splitting = beam.ParDo(split, beam.pvalue.AsSingleton(side)).with_outputs("low", "high")
        parts = p | beam.Create([1, 2]) | "Split" >> splitting
        assert_that(parts.low, equal_to([11]), "low")
        assert_that(parts.high, equal_to([12]), "high")
        p.replace_all([Override("Split", Added())])


def test_a_replacement_has_all_consumed_outputs():
    p = TestPipeline()
    parts = p | beam.Create([1]) | "Split" >> beam.ParDo(lambda x: [x]).with_outputs("a", "b")
    _ = parts.a | "A" >> beam.Map(print)
    _ = parts.b | "B" >> beam.Map(print)
    only = beam.ParDo(lambda x: [x]).with_outputs("a", main="m")
    with pytest.raises(PipelineError, match="Split: its replacement lacks an output that B consumes"):
        p.replace_all([Override("Split", only)])


def test_a_replacement_returns_outputs_of_its_own():
    class Same(beam.PTransform):
        def expand(self, pcoll):
            return pcoll

    p = TestPipeline()
    _ = p | beam.Create([1]) | "Times" >> beam.Map(lambda x: 2 * x)
    with pytest.raises(PipelineError, match="Times: its replacement returns an input"):
        p.replace_all([Override("Times", Same())])
