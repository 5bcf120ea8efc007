"""A pipeline under construction."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import penstock as beam
from penstock.sdk.errors import DuplicateLabelError
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

    assert more.producer.startswith("Map(<lambda at test_pipeline.py:")
    assert more.producer.endswith(" (3)")
    assert doubled.producer.startswith("doubled (3)/Map(<lambda at test_pipeline.py:")
    assert doubled.producer.endswith(">)")


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_elsewhere_a_label_that_is_taken_is_an_error(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a program, and in IPython's terminal."""
    run_in(shell, monkeypatch)
    p = TestPipeline()
    cell(p)
    with pytest.raises(DuplicateLabelError, match="a transform labelled 'Create' is already in the pipeline"):
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
    with pytest.raises(RuntimeError, match="'twice'"):
        p.apply(Twice(), numbers, "twice")
