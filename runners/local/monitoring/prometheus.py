"""Metrics for Prometheus: an HTTP endpoint with the status of a run.

The URL is http://127.0.0.1:PORT/metrics with `--metrics_port=PORT`; other hosts can read it only with
`--metrics_host`.  The endpoint shows the names of steps and metrics, and their values, without authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ....sdk.errors import missing_extra
from ....windowing.timestamp import MAX_MICROS, MIN_MICROS
from ..job.status import JobStatus
from .health import RunStatus
from .http_port import HttpPort

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class MetricsPort:
    """The endpoint, until it is closed.

    Args:
      status: returns the current status.
      tasks: the labels of the tasks, by their numbers.
      port: 0 for a free one.
      host: the address to listen at.

    Attributes:
      url: the URL of the metrics.

    Raises `MissingExtraError` without prometheus-client, and `OptionsError` if the port is not available.
    """

    def __init__(
        self, status: Callable[[], RunStatus], tasks: Sequence[str], port: int, host: str = "127.0.0.1"
    ) -> None:
        if find_spec("prometheus_client") is None:
            raise missing_extra("prometheus-client", "metrics", "--metrics_port")
        from prometheus_client import CollectorRegistry, make_wsgi_app

        registry = CollectorRegistry()
        registry.register(_Collector(status, tasks))
        self._port = HttpPort(make_wsgi_app(registry), "metrics_port", port, host)
        self.url = f"http://{self._port.address}/metrics"

    def close(self) -> None:
        """Stop the endpoint."""
        self._port.close()


class _Collector:
    """The metrics, as prometheus-client collects them."""

    def __init__(self, status: Callable[[], RunStatus], tasks: Sequence[str]) -> None:
        self._status = status
        self._tasks = tasks

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        status = self._status()
        is_job = isinstance(status, JobStatus)
        yield from _of_steps(status)
        yield from _of_subtasks(status, self._tasks, waits=is_job)
        uptime = (status.now - status.started) / 1e6
        yield GaugeMetricFamily("penstock_uptime_seconds", "Since the run began.", value=uptime)
        if isinstance(status, JobStatus):
            yield from _of_stream(status)
            yield from _of_checkpoints(status)
        yield from _of_user_code(status)


def _of_steps(status: RunStatus) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    read = CounterMetricFamily("penstock_elements_read", "Elements that a step has read.", labels=["step"])
    written = CounterMetricFamily("penstock_elements_written", "Elements that a step has put out.", labels=["step"])
    for label, count in status.counts.steps.items():
        read.add_metric([label], count.read)
        written.add_metric([label], count.written)
    spent = CounterMetricFamily(
        "penstock_step_seconds", "The sampled time of a transform, also of those within a fused stage.", labels=["step"]
    )
    for label, seconds in status.counts.seconds.items():
        spent.add_metric([label], seconds)
    yield from (read, written, spent)


def _of_stream(status: JobStatus) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    watermark = GaugeMetricFamily(
        "penstock_watermark_seconds", "A step's watermark, in seconds since 1970.", labels=["step"]
    )
    lag = GaugeMetricFamily(
        "penstock_watermark_lag_seconds", "How far a step's watermark is behind the clock.", labels=["step"]
    )
    for label, micros in status.watermarks.items():
        # There is no watermark before the first element, and no lag after the last.
        if MIN_MICROS < micros < MAX_MICROS:
            watermark.add_metric([label], micros / 1e6)
            lag.add_metric([label], (status.now - micros) / 1e6)
    pressure = GaugeMetricFamily(
        "penstock_backpressure_ratio",
        "The share of the last five seconds for which a stage had to wait for those behind it.",
        labels=["stage"],
    )
    for label, share in status.backpressure.items():
        pressure.add_metric([label], share)
    kept = GaugeMetricFamily(
        "penstock_state_entries",
        "Windows or cells of state of a step, in memory and on disk, at the last checkpoint.",
        labels=["step"],
    )
    for label, number in status.kept.items():
        kept.add_metric([label], number)
    yield from (watermark, lag, pressure, kept)


def _of_subtasks(status: RunStatus, tasks: Sequence[str], waits: bool) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    labels = ["stage", "subtask"]
    text = "The share of the last five seconds in which a subtask was processing."
    busy = GaugeMetricFamily("penstock_subtask_busy_ratio", text, labels=labels)
    text = "The share of the last five seconds in which a subtask had to wait for those behind it."
    pressure = GaugeMetricFamily("penstock_subtask_backpressure_ratio", text, labels=labels)
    idle = GaugeMetricFamily("penstock_subtask_idle_ratio", "The rest of the last five seconds.", labels=labels)
    for id, load in status.loads.items():
        for family, share in ((busy, load.busy), (pressure, load.backpressured), (idle, load.idle)):
            family.add_metric([tasks[id.task], str(id.index)], share)
    yield from (busy, pressure, idle) if waits else (busy, idle)


def _of_checkpoints(status: JobStatus) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    def counter(name: str, text: str, value: int) -> Metric:
        return CounterMetricFamily(f"penstock_{name}", text, value=value)

    def gauge(name: str, text: str, value: float | None) -> Iterator[Metric]:
        if value is not None:
            yield GaugeMetricFamily(f"penstock_{name}", text, value=value)

    v = status
    yield counter("checkpoints", "Checkpoints that were completed.", v.checkpoints)
    yield counter("checkpoint_failures", "Checkpoints that have failed.", v.failed_checkpoints)
    yield counter("restarts", "How often the job has started again after a failure.", v.restarts)
    yield from gauge("checkpoint_epoch", "The number of the last checkpoint.", v.epoch)
    yield from gauge("checkpoint_size_bytes", "The size of the files of the last checkpoint.", v.checkpoint_size)
    if v.checkpoint_at is not None and v.checkpoint_duration is not None:
        yield from gauge("checkpoint_age_seconds", "Since the last checkpoint.", (v.now - v.checkpoint_at) / 1e6)
        yield from gauge("checkpoint_duration_seconds", "How long the last one took.", v.checkpoint_duration / 1e6)
    yield from gauge("backlog", "About how much waits to be read, where sources know.", v.backlog)


def _of_user_code(status: RunStatus) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily, SummaryMetricFamily

    labels = ["step", "namespace", "name"]
    # Penstock's counters may decrease, which Prometheus's must not.
    counters = GaugeMetricFamily("penstock_user_counter", "A counter that user code has.", labels=labels)
    gauges = GaugeMetricFamily("penstock_user_gauge", "A gauge that user code has.", labels=labels)
    sums = SummaryMetricFamily("penstock_user_distribution", "Count and sum of a distribution.", labels=labels)
    least = GaugeMetricFamily("penstock_user_distribution_min", "A distribution's least value.", labels=labels)
    greatest = GaugeMetricFamily("penstock_user_distribution_max", "A distribution's greatest value.", labels=labels)
    for step, reported in status.metrics.steps.items():
        for name, n in reported.counters.items():
            counters.add_metric([step, *name], n)
        for name, (_, value) in reported.gauges.items():
            if isinstance(value, (int, float)):
                gauges.add_metric([step, *name], value)
        for name, (total, count, low, high) in reported.distributions.items():
            sums.add_metric([step, *name], count_value=count, sum_value=total)
            least.add_metric([step, *name], low)
            greatest.add_metric([step, *name], high)
    yield from (counters, gauges, sums, least, greatest)
