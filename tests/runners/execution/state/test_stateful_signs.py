"""A stateful ParDo whose inputs, or outputs, are taken back."""

from __future__ import annotations

from typing import Any

import pytest
from support.execution.stateful_pardo import Index, Work, at

import penstock as beam
from penstock.runners.execution.state.stateful_pardo import StatefulExecutor
from penstock.sdk.errors import PipelineError
from penstock.sdk.userstate import CombiningValueStateSpec, ReadModifyWriteStateSpec
from penstock.testing import TestPipeline
from penstock.windowing import FixedWindows


class Latest(beam.DoFn):
    """The latest value of a key; it takes back the one before."""

    LAST = ReadModifyWriteStateSpec("last")
    retracts = True

    def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
        if last.read() is not None:
            yield beam.Retracted(last.read())
        yield element
        last.write(element)


class Counting(beam.DoFn):
    """How many there are of a key, retractions counted."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, element: Any, sign: int = beam.DoFn.SignParam, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        if count.read():
            yield beam.Retracted((element[0], count.read()))
        count.add(sign)
        if count.read():
            yield at((element[0], count.read()), 7)


def signed(work: Work) -> list[tuple[Any, int]]:
    rows, work.rows = work.rows, []
    return [(row[0], row[4]) for row in rows]


def test_outputs_have_the_sign_of_their_element() -> None:
    """Unless the DoFn takes them back of its own accord."""
    work = Work(Index()).process(("a", "x")).process(("a", "x"), sign=-1)
    assert [(("a", "x", 0), 1), (("a", "x", 1), -1)] == signed(work)
    work = Work(Latest()).process(("a", 1), ("a", 2), ("b", 3), ("a", 4))
    assert [(("a", 1), 1), (("a", 1), -1), (("a", 2), 1), (("b", 3), 1), (("a", 2), -1), (("a", 4), 1)] == signed(work)


def behind_a_grouping_that_retracts(dofn: beam.DoFn) -> Work:
    """The DoFn, with an input that may be taken back."""
    retracting = beam.WindowInto(
        FixedWindows(10),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.RETRACTING,
    )
    work = Work(dofn)
    pcoll = TestPipeline() | beam.Create([("a", 1)]) | retracting | beam.CombinePerKey(sum)
    out = pcoll | "Apply" >> beam.ParDo(dofn)
    assert out.retracted_by
    work.executor = StatefulExecutor(pcoll.pipeline.graph().transforms[-1], work.emit)
    return work


def test_a_dofn_that_looks_at_signs_decides_on_those_of_its_outputs() -> None:
    """They are +1 unless it takes them back."""
    work = (
        behind_a_grouping_that_retracts(Counting())
        .process(("a", 1), ("a", 2))
        .process(("a", 1), sign=-1)
        .process(("a", 2), sign=-1)
    )
    assert [(("a", 1), 1), (("a", 1), -1), (("a", 2), 1), (("a", 2), -1), (("a", 1), 1), (("a", 1), -1)] == signed(work)


def test_a_dofn_that_retracts_outputs_has_to_declare_it() -> None:
    """By asking for signs where there are any, or by `retracts`."""

    class Silent(beam.DoFn):
        LAST = ReadModifyWriteStateSpec("last")

        def process(self, element: Any, last: Any = beam.DoFn.StateParam(LAST)) -> Any:
            yield beam.Retracted(element)

    with pytest.raises(PipelineError, match="Apply: got the output Retracted.*Silent doesn't ask for signs"):
        Work(Silent()).process(("a", 1))
    with pytest.raises(PipelineError, match="Counting has no input that can be retracted"):
        Work(Counting()).process(("a", 1), ("a", 2))
    with pytest.raises(PipelineError, match="the outputs of a function have the sign of its input"):
        ["a"] | beam.Map(beam.Retracted)


def test_what_follows_a_dofn_that_takes_outputs_back_knows_it() -> None:
    """When the pipeline is built."""
    out = TestPipeline() | beam.Create([("a", 1)]) | "Latest" >> beam.ParDo(Latest())
    assert "Latest" == out.retracted_by
    out = TestPipeline() | beam.Create([("a", 1)]) | "Count" >> beam.ParDo(Counting())
    assert "" == out.retracted_by
