"""The status of a running job: for Prometheus, on the terminal and in its result; and metrics after a failure."""

from __future__ import annotations

import io
import os
import pathlib
import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.execution.counters import Counts
from penstock.runners.local.monitoring.progress import JobProgress
from penstock.sdk.errors import MissingExtraError, OptionsError
from penstock.sdk.metrics import Metrics, MetricsFilter
from penstock.sdk.runner import PipelineState


class Report(beam.DoFn):
    """Reports each kind of metric."""

    def process(self, element: int) -> Iterator[int]:
        Metrics.counter("app", "numbers").inc()
        Metrics.distribution("app", "sizes").update(element)
        Metrics.gauge("app", "last").set(element)
        Metrics.gauge("app", "name").set("a text")
        yield element


def started(directory: pathlib.Path | None = None, **flags: Any) -> Any:
    """Start a stream with metrics; its watermark follows the clock, and the window closes when it is drained."""
    more = {} if directory is None else {"checkpoint_dir": str(directory / "kept")}
    p = beam.Pipeline(options=PipelineOptions(**{"checkpoint_interval": 0.1, "metrics_port": 0, **more, **flags}))
    numbers = p | "Read" >> beam.io.GenerateSequence(0, None, 200, 1, partitions=2) | "Report" >> beam.ParDo(Report())
    windows = numbers | beam.WindowInto(beam.window.FixedWindows(10**9))
    _ = windows | beam.WithKeys(0) | "Sum" >> beam.CombinePerKey(sum)
    result = p.run()
    _results.append(result)
    return result


# What a test has started.
_results: list[Any] = []


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """End the stream of a test that has failed: it would slow down all others."""
    yield
    while _results:
        result = _results.pop()
        if not PipelineState.is_terminal(result.state):
            result.cancel()


def page(result: Any) -> dict[tuple[str, ...], float]:
    """Return the samples by name and the values of their labels."""
    with urllib.request.urlopen(result.metrics_url, timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_endpoint_shows_the_status(parallelism: int, tmp_path: pathlib.Path) -> None:
    """Steps, checkpoints, backpressure, and the metrics of user code."""
    result = started(tmp_path, parallelism=parallelism)
    ours = ("numbers", "app", "Report")
    wait_until(lambda: page(result).get(("penstock_user_counter", *ours), 0) > 50, "fifty numbers")
    wait_until(lambda: page(result)["penstock_checkpoints_total",] > 1, "two checkpoints")
    lag = ("penstock_watermark_lag_seconds", "Read/Read(SequenceSource)")
    wait_until(lambda: lag in page(result), "a watermark")
    first = (tasks_of(result)[0], "0")
    wait_until(lambda: page(result).get(("penstock_subtask_busy_ratio", *first), 0) > 0, "a busy subtask")
    # A worker that the machine holds up holds up the others, but not for long.
    wait_until(lambda: {0.0} == backpressure_in(page(result)), "no backpressure")
    found = page(result)
    result.cancel()

    read = found["penstock_elements_read_total", "Read/Read(SequenceSource)"]
    assert found["penstock_user_counter", *ours] == read
    assert found["penstock_user_distribution_count", "sizes", "app", "Report"] == read
    assert 0 == found["penstock_user_distribution_min", "sizes", "app", "Report"]
    assert found["penstock_user_distribution_max", "sizes", "app", "Report"] >= read / 2
    assert ("penstock_user_gauge", "last", "app", "Report") in found
    assert ("penstock_user_gauge", "name", "app", "Report") not in found
    assert 0 <= found[lag] < 60
    assert 0 < found["penstock_checkpoint_size_bytes",]
    assert 1 == found["penstock_state_entries", "Sum"]
    assert 0 < found["penstock_checkpoint_duration_seconds",] < 60
    assert 0 <= found["penstock_checkpoint_age_seconds",] < 60
    assert 0 == found["penstock_checkpoint_failures_total",] == found["penstock_restarts_total",]
    assert 1.0 == pytest.approx(sum(found[(f"penstock_subtask_{name}_ratio", *first)] for name in LOADS))


LOADS = ("busy", "backpressure", "idle")


def backpressure_in(found: Any) -> set[float]:
    """The ratios of all tasks."""
    return {value for (name, *_), value in found.items() if name == "penstock_backpressure_ratio"}


def tasks_of(result: Any) -> list[str]:
    """The labels of the result's tasks."""
    return [task.label for task in result._job.execution_graph.tasks]


def numbers_of(result: Any) -> Any:
    """The result's counter."""
    (counter,) = result.metrics().query(MetricsFilter().with_name("numbers"))["counters"] or [None]
    return counter


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_running_job_has_attempted_and_committed_metrics(parallelism: int, tmp_path: pathlib.Path) -> None:
    """Up to now, and up to the last checkpoint; in the end they are the same."""
    result = started(tmp_path, parallelism=parallelism)
    wait_until(lambda: (found := numbers_of(result)) and (found.committed or 0) > 50, "fifty numbers")
    counter = numbers_of(result)
    assert counter.committed <= counter.attempted
    result.drain()
    counter = numbers_of(result)
    (sizes,) = result.metrics().query()["distributions"]
    assert counter.committed == counter.attempted == sizes.result.count


class FailsOnce(beam.DoFn):
    """Fails at the hundredth element, unless it has done so."""

    def __init__(self, mark: pathlib.Path) -> None:
        self.mark = mark

    def process(self, element: int) -> Iterator[int]:
        Metrics.counter("app", "numbers").inc()
        if element == 100 and not self.mark.exists():
            self.mark.touch()
            raise RuntimeError("once")
        yield element


@pytest.mark.parametrize("parallelism", [1, 2])
def test_metrics_after_the_last_checkpoint_of_a_failed_attempt_are_dropped(
    parallelism: int, tmp_path: pathlib.Path
) -> None:
    """Each of the numbers is counted once, though some were processed twice."""
    options = PipelineOptions(
        parallelism=parallelism, checkpoint_interval=0.05, checkpoint_dir=str(tmp_path / "kept"), restart_delay=0.01
    )
    with beam.Pipeline(options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, 200, 400, 1)
        _ = numbers | beam.ParDo(FailsOnce(tmp_path / "failed")) | beam.WithKeys(0) | beam.Map(lambda pair: pair)
    counter = numbers_of(p.result)
    assert (200, 200) == (counter.committed, counter.attempted)
    assert (1, True) == (p.result._job.status.restarts, "once" in p.result._job.status.failure)
    (step,) = (count for label, count in p.result._job.status.committed.counts.steps.items() if "Read" in label)
    assert 200 == step.read


def test_the_endpoint_serves_after_workers_were_killed_and_forked_again(tmp_path: pathlib.Path) -> None:
    """Its thread doesn't prevent a fork, and children close the socket."""
    result = started(tmp_path, parallelism=2)
    wait_until(lambda: page(result).get(("penstock_checkpoints_total",), 0) > 0, "a checkpoint")
    os.kill(result._job.context.workers.pids[0], signal.SIGKILL)
    wait_until(lambda: page(result)["penstock_restarts_total",] == 1, "a restart")
    before = page(result)["penstock_checkpoints_total",]
    wait_until(lambda: page(result)["penstock_checkpoints_total",] > before, "a checkpoint behind it")
    host, port = result.metrics_url.removeprefix("http://").removesuffix("/metrics").split(":")
    result.cancel()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=30)


def test_a_silent_client_blocks_the_endpoint_for_a_short_time_only(tmp_path: pathlib.Path) -> None:
    """It delays neither a restart nor other clients for long."""
    result = started(tmp_path)
    host, port = result.metrics_url.removeprefix("http://").removesuffix("/metrics").split(":")
    with socket.create_connection((host, int(port))):
        assert page(result)["penstock_restarts_total",] == 0
    result.cancel()


def test_only_this_host_can_read_the_endpoint() -> None:
    """Unless --metrics_host says so."""
    result = started()
    assert result.metrics_url.startswith("http://127.0.0.1:")
    result.cancel()


def test_a_port_in_use_is_an_error_before_the_job_starts() -> None:
    """The error names the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionsError) as error:
            started(metrics_port=port)
    assert str(error.value).startswith(f"option --metrics_port: 127.0.0.1:{port} can't be listened at: ")


def test_without_prometheus_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the job starts."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr("penstock.runners.local.monitoring.prometheus.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as error:
        started()
    expected = "--metrics_port needs the package 'prometheus-client': pip install 'penstock[metrics]'"
    assert expected == str(error.value)


def test_the_terminal_shows_rates_lags_checkpoints_and_backpressure(tmp_path: pathlib.Path) -> None:
    """A row for each step, and the job in a line below."""
    result = started(tmp_path, metrics_port=None)
    wait_until(lambda: (result._job.status.checkpoint_size or 0) > 0, "a checkpoint")
    wait_until(
        lambda: any(label.startswith("Report") for label in result._job.status.attempted.counts.steps), "elements"
    )
    console = Console(file=io.StringIO(), width=100)
    shown = JobProgress(lambda: result._job.status, result._job.execution_graph, False, console)
    first = result._job.status
    shown.table(100)
    wait_until(lambda: result._job.status.now > first.now, "another look")
    console.print(shown.table(100))
    result.cancel()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    assert ["step", "read", "per s", "written", "lag", "time", "busy", "backpr.", "idle"] == [
        " ".join(c.split()) for c in lines[0].split("  ") if c.strip()
    ]
    assert any(line.lstrip().startswith("Report") for line in lines), text
    assert "checkpoint " in lines[-1] + lines[-2], text
    assert " kB" in lines[-1] + lines[-2], text


def test_rates_are_of_the_time_between_two_updates() -> None:
    """Not of the whole run."""
    from attrs import evolve

    from penstock.runners.local.job.status import StatusTracker
    from penstock.runners.local.subtask.reports import TaskMetrics

    counts = Counts()
    counts.of("Read").read = 1000
    early = evolve(StatusTracker([], 0).status, now=10_000_000, attempted=TaskMetrics(counts=counts))
    more = Counts()
    more.of("Read").read = 1600
    late = evolve(early, now=12_000_000, attempted=TaskMetrics(counts=more))
    looks = iter([early, late])

    class NoTasks:
        tasks = ()

    shown = JobProgress(lambda: next(looks), NoTasks(), False)  # type: ignore[arg-type]
    shown.table(80)
    shown.table(80)
    assert 300.0 == shown._rate("Read")
