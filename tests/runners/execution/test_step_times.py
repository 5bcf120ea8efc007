"""Sampled time of steps: transforms of one fused stage are told apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.counters import Counts
from penstock.runners.execution.step_times import INTERVAL, StepSampler
from penstock.runners.execution.stuck_calls import CallWatch
from penstock.runners.execution.user_errors import guarded


def spin(seconds: float) -> None:
    """Take processor time."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def slow(number: int) -> int:
    """Take three milliseconds."""
    spin(0.003)
    return number


def fast(number: int) -> int:
    """Take one millisecond."""
    spin(0.001)
    return number


def build(p: beam.Pipeline, numbers: Any) -> None:
    """Two functions in one stage, one of which takes three times as long."""
    _ = p | "Numbers" >> numbers | "Slow" >> beam.Map(slow) | "Fast" >> beam.Map(fast)


@pytest.mark.parametrize("flags", [{}, {"parallelism": 2}, {"metrics_port": 0}], ids=["batch", "workers", "job"])
def test_a_plain_run_reports_the_time_of_each_transform(flags: dict[str, Any]) -> None:
    """In the process, in workers, and as a job."""
    p = beam.Pipeline(options=PipelineOptions(**flags))
    build(p, beam.Create(range(400)))

    seconds = p.run().metrics().step_seconds()

    assert seconds["Slow"] > 0.6
    assert 1.2 < seconds["Slow"] / seconds["Fast"] < 9


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_stream_of_short_steps_is_sampled_within_them(parallelism: int) -> None:
    """Each step is over before another thread would get the interpreter."""
    p = beam.Pipeline(options=PipelineOptions(parallelism=parallelism))
    build(p, beam.io.GenerateSequence(0, 400, 150, 1, partitions=parallelism))
    result = p.run()
    result.wait_until_finish()

    seconds = result.metrics().step_seconds()

    assert seconds["Slow"] > 0.6
    assert 1.2 < seconds["Slow"] / seconds["Fast"] < 9


def test_samples_change_nothing_that_compares_counts() -> None:
    """Two runs of one pipeline have equal counts, and other times."""
    one, other = Counts(), Counts()
    one.spend("Slow", 1.0)
    assert one == other


def in_another_thread(call: Callable[[], None]) -> None:
    """Call a function there, and wait for it."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_tasks_that_are_shorter_than_the_interval_are_sampled_in_proportion() -> None:
    """Each task has a sampler of its own, as in micro-batches, and most tasks end before it takes a sample."""
    counts, now, tasks = Counts(), 0.0, 3_000
    for _ in range(tasks):
        sampler = StepSampler(counts, is_one_of_many=True, clock=lambda: now)
        end = now + INTERVAL / 3
        while now + sampler.due_in() < end:
            # Otherwise it might not be due after rounding.
            now += sampler.due_in() + 1e-9
            guarded("Short", partial(in_another_thread, sampler.sample))
        now = end

    assert pytest.approx(tasks * INTERVAL / 3, rel=0.2) == counts.seconds["Short"]


def test_a_watch_samples_short_tasks() -> None:
    """Its thread doesn't sleep until they are over."""
    counts = Counts()

    def sampled() -> bool:
        with CallWatch(60.0) as watch:
            watch.sample_by(StepSampler(counts, is_one_of_many=True))
            guarded("Short", lambda: time.sleep(INTERVAL / 3))
        return "Short" in counts.seconds

    wait_until(sampled, "a sample")
