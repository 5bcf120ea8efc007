"""How often, and at what cost, a slot observes its subtasks for a page."""

from __future__ import annotations

from typing import Any

import pytest
from support.execution.subtasks import ByHand, graph_of
from support.execution.thread_clock import ThreadClock

import penstock as beam
from penstock.runners.execution.page import observer
from penstock.runners.execution.streaming.observation import Observe
from penstock.runners.local.workers.slot import SlotObserver

# A report takes these seconds of the slot's thread, and is followed by the next one after so many.
AFTER = {0.001: 1.0, 0.004: 2.0, 0.008: 4.0, 1.0: 5.0}


class Times(ThreadClock):
    """A clock, and the processor time of a thread, which is spent by measuring backlogs."""

    def __init__(self, took: float) -> None:
        super().__init__()
        self._took = took

    def measure(self, subtasks: Any) -> dict[str, Any]:
        self.spent += self._took
        return {}


def observed_subtasks() -> tuple[ByHand, SlotObserver]:
    """Subtasks of two tasks, and their observer."""
    job = ByHand(graph_of(pairs, 2))
    return job, SlotObserver(lambda: job.subtasks, job.graph.tasks)


def pairs(p: beam.Pipeline) -> Any:
    """Sums behind a shuffle."""
    pairs = p | "Read" >> beam.io.GenerateSequence(0, 10, 1, 1, partitions=2) | "Pair" >> beam.Map(lambda n: (n, n))
    return pairs | beam.WindowInto(beam.window.FixedWindows(1)) | "Sum" >> beam.CombinePerKey(sum)


@pytest.mark.parametrize("took", AFTER)
def test_reports_take_a_small_share_of_the_time(took: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a large job are further apart, up to a limit."""
    times = Times(took)
    monkeypatch.setattr(observer, "time", times)
    _, own = observed_subtasks()
    monkeypatch.setattr(own._backlogs, "measure", times.measure)
    own.obey(Observe(is_open=True))
    assert own.taken() is not None
    times.now += AFTER[took] - 0.001
    assert own.taken() is None
    times.now += 0.002
    assert own.taken() is not None


def test_what_is_drawn_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was measured last, which isn't measured again."""
    times = Times(0.01)
    monkeypatch.setattr(observer, "time", times)
    _, own = observed_subtasks()
    own.obey(Observe(is_open=True, step="Sum"))
    assert own.taken() is not None
    sampler = next(iter(own._samplers.values()))
    sampler.inputs.append("input")  # type: ignore[arg-type]
    own._last = own._last._replace(kept={"Sum": 7})

    observed = own.taken()

    assert observed is not None
    assert (["input"], {"Sum": 7}) == (observed.inputs, observed.kept)
    assert own.taken() is None


def test_the_subtasks_of_a_slot_count_together() -> None:
    """Each edge has one count, whatever the number of subtasks."""
    _, own = observed_subtasks()
    own.obey(Observe(is_open=True))
    first, *others = own._samplers.values()

    assert others
    assert all(first.traffic is other.traffic for other in others)
    own.detach()
    own.obey(Observe(is_open=False))
    own.obey(Observe(is_open=True))
    assert first.traffic is not next(iter(own._samplers.values())).traffic
