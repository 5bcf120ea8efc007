"""A pipeline under construction."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import DuplicateLabelError, PipelineError
from penstock.sdk.options import StandardOptions
from penstock.testing import TestPipeline, assert_that, equal_to


def run_in(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


class Twice(beam.PTransform):
    def expand(self, pcoll: Any) -> Any:
        return pcoll | beam.Map(lambda x: 2 * x)


def cell(p: TestPipeline) -> Any:
    numbers = p | beam.Create([1])
    return numbers | beam.Map(lambda x: x + 1), numbers | "doubled" >> Twice()


def test_a_notebooks_cell_may_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that are taken get numbers, of composites too; what is inside of those keeps its own."""
    run_in(SimpleNamespace(kernel=object()), monkeypatch)
    with TestPipeline() as p:
        cell(p)
        cell(p)
        more, doubled = cell(p)
        assert_that(more, equal_to([2]), label="more")
        assert_that(doubled, equal_to([2]), label="doubled check")

    assert more.producer_label.startswith("Map(<lambda at test_pipeline.py:")
    assert more.producer_label.endswith(" (3)")
    assert doubled.producer_label.startswith("doubled (3)/Map(<lambda at test_pipeline.py:")
    assert doubled.producer_label.endswith(">)")


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_elsewhere_a_label_that_is_taken_is_an_error(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program, and in IPython's terminal."""
    run_in(shell, monkeypatch)
    p = TestPipeline()
    cell(p)
    with pytest.raises(DuplicateLabelError, match='A transform with label "Create" already exists in the pipeline'):
        cell(p)


def test_an_expand_may_return_any_object() -> None:
    """None and an object of the user's, whose PCollections can be used; a list is run on values."""

    class Silent(beam.PTransform[Any, None]):
        def expand(self, pcoll: Any) -> None:
            pcoll | beam.Map(str)

    class Pair(beam.PTransform[beam.PCollection[int], SimpleNamespace]):
        def expand(self, pcoll: Any) -> SimpleNamespace:
            return SimpleNamespace(more=pcoll | beam.Map(lambda x: x + 1), name="more")

    with TestPipeline() as p:
        numbers = p | beam.Create([1])
        assert (numbers | Silent()) is None
        pair = numbers | "pair" >> Pair()
        assert pair.name == "more"
        assert_that(pair.more, equal_to([2]))


def test_applied_labels_are_those_of_all_levels() -> None:
    """A composite and the transforms in it; the first argument of `apply` is the transform."""
    p = TestPipeline()
    numbers = p.apply(beam.Create([1]), label="numbers")
    p.apply(Twice(), numbers, "twice")
    assert {"numbers", "twice"} <= p.applied_labels
    assert [label for label in p.applied_labels if label.startswith("twice/Map")]
    with pytest.raises(RuntimeError, match='"twice"'):
        p.apply(Twice(), numbers, "twice")


class Visits(beam.PipelineVisitor):
    """The calls of a visitor, with labels."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def enter_composite_transform(self, transform_node: Any) -> None:
        self.calls.append(("enter", transform_node.full_label))

    def leave_composite_transform(self, transform_node: Any) -> None:
        self.calls.append(("leave", transform_node.full_label))

    def visit_transform(self, transform_node: Any) -> None:
        inputs = [repr(value) for value in (*transform_node.inputs, *transform_node.side_inputs)]
        self.calls.append((transform_node.full_label, len(inputs)))

    def visit_value(self, value: Any, producer_node: Any) -> None:
        self.calls.append(("value", value.producer_label, producer_node.full_label))


class Labelled(beam.PTransform):
    def expand(self, pcoll: Any) -> Any:
        return pcoll | "add" >> beam.Map(lambda x, more: x + len(more), beam.pvalue.AsList(pcoll))


def test_a_visitor_sees_composites_transforms_and_values() -> None:
    """In the order of application; an application that failed is not among them."""

    class Failing(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            pcoll | "inner" >> beam.Map(str)
            raise KeyError("failed")

    p = TestPipeline()
    numbers = p | beam.Create([1])
    with pytest.raises(KeyError):
        numbers | Failing()
    numbers | "composite" >> Labelled()
    visits = Visits()
    p.visit(visits)
    assert visits.calls == [
        ("enter", ""),
        ("enter", "Create"),
        ("Create/Values", 1),
        ("value", "Create/Values", "Create/Values"),
        ("leave", "Create"),
        ("enter", "composite"),
        ("composite/add", 2),
        ("value", "composite/add", "composite/add"),
        ("leave", "composite"),
        ("leave", ""),
    ]


def test_a_composite_may_follow_a_write(tmp_path: Path) -> None:
    """If it uses only the pipeline; a transform of elements is refused by name."""

    class Next(beam.PTransform):
        def expand(self, done: Any) -> Any:
            return done.pipeline | beam.Create([1])

    with TestPipeline() as p:
        done = (
            p
            | "words" >> beam.Create([("a", 1)])
            | beam.io.WriteToSQLite(str(tmp_path / "db"), "words", "word", ["word", "n"])
        )
        assert_that(done | Next(), equal_to([1]))
        for refused in (beam.Map(str), beam.GroupByKey(), beam.WindowInto(beam.window.GlobalWindows())):
            expected = f"{refused.label}: a write has no output that a transform could be applied to"
            with pytest.raises(PipelineError, match=re.escape(expected)):
                done | refused
        for label, inputs in enumerate((done, (done,))):
            with pytest.raises(TypeError, match="expected (a tuple of )?PCollections"):
                inputs | f"{label}" >> beam.Flatten()


def test_labels_in_use_get_a_number_with_an_option() -> None:
    """Where they would be an error."""
    with TestPipeline(options=beam.options.PipelineOptions(["--auto_unique_labels"])) as p:
        for _ in range(3):
            _ = p | beam.Create([1]) | beam.Map(str)
    assert {"Create", "Create (2)", "Create (3)"} <= p.applied_labels


def test_tests_set_options_by_the_name_that_beam_has_for_them() -> None:
    """Until the transforms that read them are applied."""
    p = beam.Pipeline()
    p._options.view_as(StandardOptions).streaming = True

    assert p.options.view_as(StandardOptions).streaming


def test_the_producer_of_a_pcollection_is_its_transform():
    p = TestPipeline()
    numbers = p | beam.Create([1])
    double = numbers | "Double" >> beam.Map(lambda x: 2 * x)
    assert ("Double", [numbers]) == (double.producer.full_label, list(double.producer.inputs))
    assert isinstance(double.producer.transform, beam.ParDo)


def test_a_transform_of_elements_is_not_applied_to_the_pipeline():
    with pytest.raises(PipelineError, match=r"Map\(print\): it takes a PCollection. Got a PBegin/Pipeline instead"):
        beam.Pipeline() | beam.Map(print)
    with pytest.raises(PipelineError, match=r"Twice/.*: it takes a PCollection"):
        beam.Pipeline() | Twice()


def test_pvalues_take_the_arguments_of_beam() -> None:
    """By position and by name; those of PBegin and PDone have no effect, since these have no elements."""
    p = TestPipeline()
    pcoll: beam.PCollection[int] = beam.PCollection(p, "tag", int, None, False)
    assert (p, "tag", int, False, None) == (
        pcoll.pipeline,
        pcoll.tag,
        pcoll.element_type,
        pcoll.is_bounded,
        pcoll.producer,
    )
    windowing = (p | beam.Create([1]) | beam.WindowInto(beam.window.FixedWindows(3))).windowing
    assert windowing == beam.PCollection(p, windowing=windowing).windowing
    assert (Any, True) == (beam.PCollection(p).element_type, beam.PCollection(p).is_bounded)
    value = beam.pvalue.PValue(p, tag="tag", element_type=str)
    assert ("tag", str, True) == (value.tag, value.element_type, value.is_bounded)
    for kind in (beam.pvalue.PBegin, beam.pvalue.PDone):
        assert p is kind(p, tag=None, element_type=int, windowing=windowing, is_bounded=False).pipeline


def test_a_pcollection_that_no_transform_produces_is_no_input() -> None:
    """Nor a side input."""
    p = TestPipeline()
    made: beam.PCollection[Any] = beam.PCollection(p)
    with pytest.raises(PipelineError, match=r"Map\(print\): its input is a PCollection that the program has made"):
        _ = made | beam.Map(print)
    numbers = p | beam.Create([1])
    with pytest.raises(PipelineError, match=r"Map\(print\): its input is a PCollection that the program has made"):
        _ = numbers | beam.Map(print, beam.pvalue.AsList(made))
