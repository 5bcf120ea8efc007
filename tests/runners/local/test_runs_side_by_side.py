"""Several pipelines run in one process at a time: each counts what is its own."""

from __future__ import annotations

import pathlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.programs.running_program import wait_until

import penstock as beam
from penstock.sdk.metrics import Metrics, MetricsFilter


def counted(element: Any) -> Any:
    Metrics.counter("app", "counted").inc()
    # Let another thread go on here.
    time.sleep(0)
    return element


def of(result: Any) -> dict[str, int]:
    """Return the counts by step."""
    found = result.metrics().query(MetricsFilter().with_name("counted"))["counters"]
    return {one.key.step: one.attempted for one in found}


def test_a_job_in_the_background_and_pipelines_in_the_foreground_count_for_themselves() -> None:
    """Metrics reported by the program itself belong to no pipeline."""
    p = beam.Pipeline()
    _ = p | beam.io.GenerateSequence(0, elements_per_period=1_000, period=1) | "behind" >> beam.Map(counted)
    job = p.run()
    try:
        wait_until(lambda: of(job), "a report of the job")
        for _ in range(20):
            own = beam.Pipeline()
            _ = own | beam.Create(range(1_000)) | "before" >> beam.Map(counted)
            assert {"before": 1_000} == of(own.run())
            counted(None)
    finally:
        job.drain()
    read = job.metrics().query(MetricsFilter().with_name("counted"))["counters"]
    assert ["behind"] == [one.key.step for one in read]


def test_pipelines_in_several_threads_count_for_themselves(tmp_path: pathlib.Path) -> None:
    """Each of many, at the same time."""

    def run(number: int) -> dict[str, int]:
        def wait_for_others(element: int) -> int:
            """Wait with the first element until all are at work."""
            if element == 0:
                (tmp_path / str(number)).touch()
                wait_until(lambda: len(list(tmp_path.iterdir())) == 4, "the others")
            return element

        p = beam.Pipeline()
        _ = p | beam.Create(range(100 + number)) | beam.Map(wait_for_others) | "count" >> beam.Map(counted)
        return of(p.run())

    with ThreadPoolExecutor(4) as pool:
        assert [{"count": 100 + number} for number in range(4)] == list(pool.map(run, range(4)))


def test_metrics_of_a_thread_of_no_known_pipeline_are_dropped_and_it_is_named(caplog: Any) -> None:
    """Of two pipelines that run; unless it is started with a copy of the context."""
    from contextvars import copy_context

    from penstock.sdk.metrics import reporting

    def in_a_thread(function: Any) -> None:
        thread = threading.Thread(target=function, name="of the user")
        thread.start()
        thread.join()

    def starts_threads(element: Any) -> Any:
        in_a_thread(lambda: counted(None))
        context = copy_context()
        in_a_thread(lambda: context.run(counted, None))
        return element

    other = reporting.MetricsContainer()
    entered, left = threading.Event(), threading.Event()

    def elsewhere() -> None:
        with reporting.scoped(other):
            entered.set()
            left.wait(60)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    entered.wait(60)
    reporting._is_warned = False
    p = beam.Pipeline()
    _ = p | beam.Create([0]) | "starts" >> beam.Map(starts_threads)
    try:
        result = p.run()
    finally:
        left.set()
        thread.join()

    assert {"starts": 1} == of(result)
    assert {} == other.steps
    assert "in the thread 'of the user', which user code has started" in caplog.text
