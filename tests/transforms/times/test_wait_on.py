"""WaitOn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as beam
from penstock.sdk import graph
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.windowing import FixedWindows, TimestampedValue


def test_elements_go_on_only_when_the_others_are_done(tmp_path: Path) -> None:
    """The effects of both show the order."""
    log = tmp_path / "log"

    def note(what: Any) -> None:
        with log.open("a") as file:
            file.write(f"{what} ")

    with TestPipeline() as p:
        # What waits stands first in the pipeline, so that it would run first.
        second = p | "second" >> beam.Create(["second"])
        first = [p | f"{name}" >> beam.Create([name]) | f"note {name}" >> beam.Map(note) for name in ("one", "two")]
        second | beam.WaitOn(*first) | beam.Map(note)
    assert "second" == log.read_text().split()[-1]


def test_elements_are_unchanged_and_windows_too() -> None:
    """With any signal; its elements don't appear."""
    with TestPipeline() as p:
        stamped = [
            p
            | f"values {i}" >> beam.Create([TimestampedValue(i, 5)])
            | f"windows {i}" >> beam.WindowInto(FixedWindows(10))
            for i in (1, 2)
        ]
        waiting = stamped[0] | beam.WaitOn(stamped[1])
        assert (stamped[0].windowing, int) == (waiting.windowing, waiting.element_type)
        assert_that(waiting | beam.Reify.Window() | beam.Map(lambda e: (e[0], e[1])), equal_to([(1, 5)]))


def test_what_is_waited_for_may_be_empty() -> None:
    """Then it is done at once."""
    with TestPipeline() as p:
        assert_that(p | beam.Create([1]) | beam.WaitOn(p | "nothing" >> beam.Create([])), equal_to([1]))


def test_it_is_a_side_input() -> None:
    """Every runner knows how to wait for one."""
    p = TestPipeline()
    p | beam.Create([1]) | beam.WaitOn(p | "other" >> beam.Create([2]))
    (waiting,) = [t for t in p.graph().transforms if t.side_inputs]
    assert ("WaitOn/Wait", graph.ParDo) == (waiting.label, type(waiting.primitive))


def test_only_pcollections_can_be_waited_for() -> None:
    """Not transforms, nor what a write returns."""
    with pytest.raises(TypeError, match="WaitOn: expected PCollections to wait for"):
        beam.WaitOn(beam.Create([1]))  # type: ignore[arg-type]
