"""Random scripts for random triggers: the window operator and the naive model agree on every pane."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from transcripts.naive_model import NaiveModel
from transcripts.operator_player import OperatorPlayer
from transcripts.runner import SECOND, TIMESTAMPS, Element, Step, Transcript, differences, shown

from penstock.triggers import AccumulationMode
from penstock.windowing.timestamp import MAX_MICROS

SIMPLE = [
    "AfterCount(1)",
    "AfterCount(2)",
    "AfterSpike(2)",
    "AfterProcessingTime()",
    "AfterProcessingTime(15)",
    "AfterProcessingTime(align_to=20)",
    "AfterSignal('flush')",
    "AfterWatermark()",
    "AfterWatermarkPercentile(0.9)",
    "DefaultTrigger()",
    "Always()",
    "Never()",
]


def composites(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Triggers made of triggers, as they are written."""
    parts = st.lists(part, min_size=1, max_size=3).map(", ".join)
    phases = st.dictionaries(st.sampled_from(["early", "late"]), part)
    return st.one_of(
        part.map("Repeatedly({})".format),
        parts.map("AfterEach({})".format),
        parts.map("AfterAny({})".format),
        parts.map("AfterAll({})".format),
        st.tuples(part, part).map(lambda both: f"OrFinally({both[0]}, {both[1]})"),
        phases.map(lambda by: f"AfterWatermark({', '.join(f'{name}={part}' for name, part in by.items())})"),
    )


TRIGGERS = st.recursive(st.sampled_from(SIMPLE), composites, max_leaves=4)
CLOCKS = ["watermark", "processing_time", "percentile"]


def in_time(moves: list[tuple[str, Any]]) -> tuple[Step, ...]:
    """A script of these: clocks move by seconds and microseconds, and each value is another power of two."""
    at = dict.fromkeys(CLOCKS, 0)
    steps, number = [], 0
    for kind, what in moves:
        if kind == "elements":
            elements = []
            for key, time in what:
                elements.append(Element(key, 2**number, time * SECOND))
                number += 1
            what = elements
        elif kind in at:
            seconds, micros = what
            at[kind] += seconds
            time = at[kind] * SECOND + micros
            what = (0.9, time) if kind == "percentile" else time
        steps.append(Step(kind, what, (), 0))
    return (*steps, Step("watermark", MAX_MICROS, (), 0))


MOVES = st.one_of(
    st.tuples(
        st.just("elements"), st.lists(st.tuples(st.sampled_from("kj"), st.integers(0, 90)), min_size=1, max_size=4)
    ),
    st.tuples(st.sampled_from(CLOCKS), st.tuples(st.integers(1, 30), st.sampled_from([0, 0, -1, 1]))),
    st.tuples(st.just("signal"), st.just("flush")),
)

TRANSCRIPTS = st.builds(
    Transcript,
    name=st.just("random"),
    file=st.just("random"),
    window=st.sampled_from(["fixed 30", "sliding 30 15", "sessions 10", "sessions 25", "global"]),
    trigger=TRIGGERS,
    mode=st.sampled_from(list(AccumulationMode)),
    lateness=st.sampled_from([0, 20 * SECOND, 10**6 * SECOND]),
    timestamp=st.sampled_from(list(TIMESTAMPS.values())),
    combine=st.sampled_from(["sum", "list"]),
    in_order=st.just(False),
    steps=st.lists(MOVES, max_size=12).map(in_time),
)


# The second element fires the later window, which must not let the output watermark pass it in the earlier one.
FIRES_IN_ONE_WINDOW = Transcript(
    name="random",
    file="random",
    window="sliding 30 15",
    trigger="AfterCount(2)",
    mode=AccumulationMode.DISCARDING,
    lateness=0,
    timestamp=TIMESTAMPS["earliest"],
    combine="sum",
    in_order=False,
    steps=in_time([("elements", [("k", 0)]), ("watermark", (16, 0)), ("elements", [("k", 15), ("k", 15)])]),
)


@settings(max_examples=1000)
@given(TRANSCRIPTS)
@example(FIRES_IN_ONE_WINDOW)
def test_the_window_operator_and_the_naive_model_agree(transcript):
    operator, model = OperatorPlayer(transcript), NaiveModel(transcript)
    for number, step in enumerate(transcript.steps, 1):
        what = step.what if step.kind == "percentile" else (step.what,)
        expected = getattr(model, step.kind)(*what)
        actual = getattr(operator, step.kind)(*what)
        assert [] == differences(expected, actual), f"step {number}: {list(map(shown, expected))}"
        assert (number, model.dropped) == (number, operator.dropped)
