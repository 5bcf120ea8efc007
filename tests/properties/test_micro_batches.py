"""The properties of streams in micro-batches: many random scripts side by side in one stream.

A micro-batch takes a tenth of a second, whatever is in it; so each round of the stream is a step of every script,
and nothing brings them together.  They have one clock: it goes by for all when it does for one of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from support.pipelines.recording import Recording, recorded, whole
from support.pipelines.strategies import (
    Event,
    Step,
    all_events,
    chains,
    scripts,
    some,
    stream_of_all,
    tag_of,
    timestamped,
    window_fns,
    windowings,
)

import penstock as beam
from penstock.runners.spark import SparkMicroBatchRunner
from penstock.testing import TestPipeline
from penstock.windowing import FixedWindows, GlobalWindows

# How many scripts of each kind.
SCRIPTS = 11


@attrs.frozen
class Case:
    """A script, what is done with what it brings, and all that has to count.

    Attributes:
      build: makes a PCollection of those of the sources; it is told whether they are streams.
      events: of each source.
    """

    kind: str
    script: tuple[Step, ...]
    build: Callable[[Sequence[Any], bool], Any]
    events: tuple[list[Event], ...]
    drawn: Any

    def expected(self) -> Counter[Any]:
        """Return the result of a batch of these events."""

        def of_batch(p: Any) -> Any:
            sources = [p | f"source {i}" >> beam.Create(timestamped(found)) for i, found in enumerate(self.events)]
            return self.build(sources, False)

        return recorded(of_batch).net(whole)

    def __str__(self) -> str:
        return f"{self.kind}: {[str(step) for step in self.script]}, {self.drawn}"


# The kinds


def chained(kind: str, drawn: Any) -> Case:
    """A chain of groupings; what comes too late for the first doesn't count, where windows don't merge."""
    script, chain, windowing = drawn
    events = [event for event, _ in windowing.kept(script)] if kind == "too late" else all_events(script)
    return Case(kind, tuple(script), lambda s, streaming: chain.built(s[0], windowing, streaming), (events,), drawn)


def joined(kind: str, drawn: Any) -> Case:
    """Two sources, each summed by key, joined; each has its own watermark."""
    script, windowing = drawn

    def build(sources: Sequence[Any], streaming: bool) -> Any:
        windows = windowing.stream if streaming else windowing.batch
        sums = [s | f"windows {i}" >> windows() | f"sum {i}" >> beam.CombinePerKey(sum) for i, s in enumerate(sources)]
        return (
            {"left": sums[0], "right": sums[1]}
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda k, sides: (k, tuple(sorted((n, tuple(sorted(vs))) for n, vs in sides.items()))))
        )

    return Case(kind, tuple(script), build, (all_events(script, 0), all_events(script, 1)), drawn)


# Windows that don't merge, and that an event has one of: it is either late or not.
ONE_WINDOW = st.sampled_from([FixedWindows(10), FixedWindows(7, 2), GlobalWindows()])
IN_SESSIONS = windowings(window_fns(merging=True))


def long_scripts(**settings: int) -> st.SearchStrategy[list[Step]]:
    """Those in which there is something to take back."""
    return scripts(**settings).filter(lambda script: len(script) >= 6)


KINDS: dict[str, tuple[Any, Any]] = {
    "two groupings": (chained, st.tuples(long_scripts(), chains(2), windowings())),
    "three groupings": (chained, st.tuples(long_scripts(), chains(3), windowings())),
    "sessions": (chained, st.tuples(long_scripts(until=20), chains(2, IN_SESSIONS), IN_SESSIONS)),
    "too late": (
        chained,
        st.tuples(long_scripts(), chains(2), windowings(ONE_WINDOW, lateness=st.sampled_from([0, 3, 10]))),
    ),
    "joined": (joined, st.tuples(long_scripts(sources=2), windowings())),
}


# All of them in one stream


@pytest.fixture(scope="module")
def played(spark: Any) -> list[tuple[Case, Recording]]:
    """Cases of every kind, and what has come to the sink of each."""
    cases = [make(kind, drawn) for kind, (make, strategy) in KINDS.items() for drawn in some(strategy, SCRIPTS)]
    sinks = [Recording() for _ in cases]
    with TestPipeline(SparkMicroBatchRunner(spark)) as p:
        outputs = p | stream_of_all([(case.script, len(case.events)) for case in cases])
        for i, (case, sink) in enumerate(zip(cases, sinks, strict=True)):
            own = tuple(outputs[tag_of(i, source)] for source in range(len(case.events)))
            own | f"case {i}" >> Built(case) | f"sink {i}" >> beam.io.Write(sink)
    return list(zip(cases, sinks, strict=True))


class Built(beam.PTransform):
    """A case's transforms, under a label of their own."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def expand(self, pcolls: Any) -> Any:
        return self.case.build(pcolls, True)


@pytest.mark.parametrize("kind", KINDS)
def test_when_all_is_in_the_signs_add_up_to_a_batch(played: list[tuple[Case, Recording]], kind: str) -> None:
    """In whatever order the elements came, however late, and whatever was said of them before."""
    own = [(case, sink) for case, sink in played if case.kind == kind]

    assert SCRIPTS == len(own)
    assert [] == [str(case) for case, sink in own if case.expected() != sink.net(whole)]


def test_nothing_is_taken_back_that_was_not_said(played: list[tuple[Case, Recording]]) -> None:
    """A retraction comes after its element, with the timestamp, windows and pane that this had."""
    wrong = []
    for case, sink in played:
        standing: Counter[Any] = Counter()
        for change in sink.changes:
            standing[*whole(change), change.pane] += change.sign
            if standing[*whole(change), change.pane] < 0:
                wrong.append((str(case), str(change)))

    assert [] == wrong


def test_something_is_said_early_and_taken_back(played: list[tuple[Case, Recording]]) -> None:
    """Or the rest would show little."""
    assert 1 <= sum(any(change.sign < 0 for change in sink.changes) for _, sink in played)
