"""The page, the metrics and the health of a run in batch, in this process and in workers."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.programs.running_program import wait_until
from support.runners.running_pages import Page, ask, busy, document, post, printed_page

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import OptionsError
from penstock.sdk.metrics import Metrics

IN_BATCH = pytest.mark.parametrize("parallelism", [1, 2])


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Run:
    """A run in a thread of its own, with its page and its endpoints.

    Attributes:
      state: that of the result; None while it runs.
      error: the error that it has ended with.
    """

    def __init__(self, build: Callable[[beam.Pipeline], Any], page: Callable[[], Page], **flags: Any) -> None:
        self.metrics_port, self.health_port = free_port(), free_port()
        ports = {"ui_port": 0, "metrics_port": self.metrics_port, "health_port": self.health_port}
        self._build = build
        self._options = PipelineOptions(**{**ports, **flags})
        self.state: str | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.page = page()

    def _run(self) -> None:
        try:
            p = beam.Pipeline(options=self._options)
            self._build(p)
            self.state = str(p.run().state)
        except BaseException as error:
            self.error = error

    def document(self, name: str) -> Any:
        """A document of the page."""
        return document(self.page, name)

    def status(self) -> Any:
        """The status that the page has."""
        return self.document("status")

    def samples(self) -> dict[tuple[str, ...], float]:
        """The metrics by name and the values of their labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def health(self, path: str = "/healthz") -> tuple[int, Any]:
        """The status and the body of an answer about the health."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}", timeout=30) as answer:
                return int(answer.status), json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def ended(self) -> str | None:
        """Wait for the end, and return the state."""
        self.thread.join(120)
        assert not self.thread.is_alive()
        return self.state


@pytest.fixture
def start(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> Iterator[Callable[..., Run]]:
    """Start a run; all runs go on once the file "goes on" is there, at the latest at the end of the test."""
    runs: list[Run] = []

    def begin(build: Callable[[beam.Pipeline], Any], **flags: Any) -> Run:
        runs.append(Run(build, lambda: printed_page(capfd), **flags))
        return runs[-1]

    yield begin
    (tmp_path / "goes on").touch()
    for each in runs:
        each.ended()


@contextmanager
def no_jobs() -> Iterator[None]:
    """Fail where a run is a job."""
    from penstock.runners.local import LocalStreamingRunner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStreamingRunner, "_stream", None)
        yield


class Counted(beam.DoFn):
    """Takes five milliseconds, reports each kind of metric, and logs now and then, until it is told to go on."""

    def __init__(self, goes_on: pathlib.Path) -> None:
        self.goes_on = goes_on
        self.is_told = False

    def process(self, element: int) -> Iterator[tuple[str, int]]:
        Metrics.counter("app", "numbers").inc()
        Metrics.distribution("app", "sizes").update(element)
        self.is_told = self.is_told or self.goes_on.exists()
        if not self.is_told:
            for _ in range(5):
                busy(element)
            if element % 20 == 0:
                logging.getLogger("app").warning("now and then")
        yield "often" if element % 3 else "seldom", element


def counting(tmp_path: pathlib.Path) -> Callable[[beam.Pipeline], Any]:
    """A pipeline of many numbers that takes long until it is told to go on."""

    def build(p: beam.Pipeline) -> None:
        numbers = p | "Read" >> beam.Create(range(20_000), reshuffle=False)
        pairs = numbers | "Busy" >> beam.ParDo(Counted(tmp_path / "goes on"))
        groups = pairs | "Group" >> beam.GroupByKey() | "Lengths" >> beam.MapTuple(lambda k, v: f"{k} {len(list(v))}")
        _ = groups | "Write" >> beam.io.WriteToText(str(tmp_path / "out"))

    return build


def written(tmp_path: pathlib.Path) -> list[str]:
    """The lines that a run has written."""
    return sorted(line for path in tmp_path.glob("out*") for line in path.read_text().splitlines())


WRITTEN = ["often 13333", "seldom 6667"]


@IN_BATCH
def test_the_page_shows_the_tasks(parallelism: int, start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """Counts, time and load, partitions and workers, edges, metrics, logs and a profile."""
    with no_jobs():
        run = start(counting(tmp_path), parallelism=parallelism)
        wait_until(lambda: run.status().get("seconds", {}).get("Busy", 0) > 0.3, "time of a step")
        process = "run" if parallelism == 1 else "worker"

        def logs() -> set[tuple[str, str]]:
            return {(name.split(" ")[0], text) for name, _, _, text in run.document("logs")["lines"]}

        wait_until(lambda: (process, "app: now and then") in logs(), "the log")
        wait_until(lambda: run.status()["traffic_rates"], "rates of edges")
        wait_until(lambda: run.status()["bottleneck"]["step"], "a bottleneck")
        number = post(run.page, "/api/profiles", {"seconds": 0.5}).json["number"]
        wait_until(lambda: run.document("profiles")["profiles"], "a profile")
        status, graph, about = run.status(), run.document("graph"), run.document("run")
        profile = run.document("profiles")["profiles"][0]
        refused = post(run.page, "/api/requests/savepoint").status
        (tmp_path / "goes on").touch()
        run.ended()

    assert ("DONE", WRITTEN) == (run.state, written(tmp_path))
    assert ("RUNNING", parallelism, ["cancel"], 409) == (
        about["state"],
        graph["parallelism"],
        about["requests"],
        refused,
    )
    first, *others = status["partitions"]
    assert all(done == running == 0 for done, running, _ in others)
    assert [1, 0] == first[1:] if parallelism == 1 else first[1] >= 2 <= first[2]
    assert parallelism == status["workers"] == len(status["tasks"])
    assert {0} == {each["task"] for each in status["tasks"]}
    assert len({each["pid"] for each in status["tasks"]}) == parallelism
    assert (os.getpid() in {each["pid"] for each in status["tasks"]}) == (parallelism == 1)
    assert [t["label"].split(" ")[0] for t in graph["tasks"]] == ["Read/Values", "Group"]
    assert 0 < status["read"]["Read/Values"] < 20_000
    assert all(0 < load <= 1 and read > 0 for load, _, read in status["subtasks"][0])
    labels = [transform["label"] for transform in graph["transforms"]]
    (edge,) = (each["pcollection"] for each in graph["edges"] if labels[each["target"]] == "Busy")
    assert 0 < status["traffic"][str(edge)][0] <= 20_000
    assert ("Busy", "user function") == (status["bottleneck"]["step"], status["bottleneck"]["cause"])
    counter = [each["value"] for each in status["metrics"] if each["name"] == "numbers"]
    assert 0 < counter[0] < 20_000
    assert number == profile["number"]
    assert any("Busy\n" in stack and "busy (running_pages.py:" in stack for stack in profile["stacks"])
    assert {"backlogs", "kept", "overdue", "watermarks", "state_size"} == set(status["unmeasured"])


def test_workers_sample_the_keys_before_a_shuffle(start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """In this process elements are folded in place, so that nothing is before a grouping."""
    run = start(counting(tmp_path), parallelism=2)

    def keys() -> set[str]:
        return {key for key, _ in run.status().get("hot_keys", {}).get("Group", {}).get("keys", ())}

    wait_until(lambda: keys() == {"'often'", "'seldom'"}, "the keys")
    assert "a run in batch" in run.document("panes")["why"]
    assert {"shuffle"} == {each["crosses"] for each in run.document("graph")["edges"]} - {""}


NAMES = {
    "penstock_elements_read_total",
    "penstock_elements_written_total",
    "penstock_step_seconds_total",
    "penstock_subtask_busy_ratio",
    "penstock_subtask_idle_ratio",
    "penstock_uptime_seconds",
    "penstock_user_counter",
    "penstock_user_distribution_count",
    "penstock_user_distribution_sum",
    "penstock_user_distribution_min",
    "penstock_user_distribution_max",
}


@IN_BATCH
def test_metrics_have_the_names_of_a_stream(
    parallelism: int, start: Callable[..., Run], tmp_path: pathlib.Path
) -> None:
    """As far as they apply: nothing is said of checkpoints, watermarks and backpressure."""
    run = start(counting(tmp_path), parallelism=parallelism)
    ours = ("numbers", "app", "Busy")
    wait_until(lambda: run.samples().get(("penstock_user_counter", *ours), 0) > 200, "numbers")
    wait_until(lambda: NAMES <= {name for name, *_ in run.samples()}, "all metrics")

    def reported() -> int:
        return sum(name == "penstock_subtask_busy_ratio" for name, *_ in run.samples())

    wait_until(lambda: reported() == parallelism, "a report of each worker")
    found = run.samples()

    assert NAMES == {name for name, *_ in found}
    assert 0 < found["penstock_elements_read_total", "Read/Values"] < 20_000
    assert found["penstock_user_distribution_count", "sizes", "app", "Busy"] == found["penstock_user_counter", *ours]
    stage = next(labels[0] for name, *labels in found if name == "penstock_subtask_busy_ratio")
    loads = [found["penstock_subtask_busy_ratio", stage, str(n)] for n in range(parallelism)]
    idle = [found["penstock_subtask_idle_ratio", stage, str(n)] for n in range(parallelism)]
    assert [1.0] * parallelism == pytest.approx([sum(pair) for pair in zip(loads, idle, strict=True)])
    assert all(load > 0 for load in loads)


@IN_BATCH
def test_health_says_how_far_the_run_is(parallelism: int, start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """It is ready while its tasks run."""
    run = start(counting(tmp_path), parallelism=parallelism)
    wait_until(lambda: run.health("/readyz")[0] == 200, "a run that is ready")
    wait_until(lambda: run.health()[1]["partitions"]["running"], "a task")
    code, body = run.health()
    partitions = body.pop("partitions")

    assert (200, {"live": True, "ready": True, "phase": "running", "why": ""}) == (code, body)
    assert ["done", "running", "waiting"] == list(partitions)
    assert 0 == partitions["done"]


@IN_BATCH
def test_a_function_that_does_not_return_makes_the_run_unhealthy(
    parallelism: int, start: Callable[..., Run], tmp_path: pathlib.Path
) -> None:
    """The reason names the step, and the worker.  When the function has returned, the run is live again."""
    goes_on, ends = str(tmp_path / "goes on"), str(tmp_path / "ends")

    def waits(number: int) -> int:
        if number == 3:
            wait_until(lambda: os.path.exists(goes_on), "the signal to go on")
        if not os.path.exists(ends):
            time.sleep(0.02)
        return number

    def build(p: beam.Pipeline) -> None:
        _ = p | beam.Create(range(2_000), reshuffle=False) | "Waits" >> beam.Map(waits)

    run = start(build, parallelism=parallelism, worker_timeout=2.0, health_timeout=1.0)
    try:
        wait_until(lambda: "has not returned" in run.health()[1]["why"], "the reason")
        (code, body), ready = run.health(), run.health("/readyz")[0]
        (tmp_path / "goes on").touch()
        wait_until(lambda: run.health()[0] == 200, "health again")
    finally:
        pathlib.Path(ends).touch()
    assert "DONE" == run.ended()
    assert (503, 503) == (code, ready)
    assert body["why"].startswith("'Waits'" + (" in worker " if parallelism > 1 else ": a function"))


def test_slow_functions_are_no_stall(start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """Each element is progress, though a bundle of the source has thousands."""

    def build(p: beam.Pipeline) -> None:
        goes_on = tmp_path / "goes on"
        slow = beam.Map(lambda n: goes_on.exists() or threading.Event().wait(0.1))
        _ = p | beam.Create(range(2_000), reshuffle=False) | "Slow" >> slow

    run = start(build, health_timeout=1.0)
    seen = []
    wait_until(lambda: seen.append(run.health()) or run.status().get("read", {}).get("Slow", 0) > 30, "elements")
    assert {200} == {code for code, _ in seen}


@IN_BATCH
def test_a_run_is_cancelled_from_its_page(parallelism: int, start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """Nothing is written, and nothing is left behind."""
    run = start(counting(tmp_path), parallelism=parallelism)
    wait_until(lambda: run.status().get("read", {}).get("Read/Values"), "elements")
    answer = post(run.page, "/api/requests/cancel").json

    assert "CANCELLED" == run.ended()
    assert answer["is_done"]
    assert [] == [path.name for path in tmp_path.iterdir() if path.name != "goes on"]


def test_a_killed_worker_is_replaced_and_goes_on_to_observe(start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """The page says so in the log, and the results are those of all elements."""
    run = start(counting(tmp_path), parallelism=2)
    wait_until(lambda: len(run.status().get("tasks", ())) == 2, "the workers")
    killed = run.status()["tasks"][0]["pid"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: any("was killed by SIGKILL" in line[3] for line in run.document("logs")["lines"]), "the log")
    wait_until(lambda: killed not in {each["pid"] for each in run.status()["tasks"]}, "the new worker")
    number = post(run.page, "/api/profiles", {"seconds": 0.2}).json["number"]

    def profiled() -> set[str]:
        found = [each["stacks"] for each in run.document("profiles")["profiles"] if each["number"] == number]
        return {stack.split("\n")[0] for stacks in found for stack in stacks}

    wait_until(lambda: profiled() == {"worker 0", "worker 1"}, "profiles of both")
    (tmp_path / "goes on").touch()

    assert ("DONE", WRITTEN) == (run.ended(), written(tmp_path))


def test_a_worker_that_hangs_is_named_on_the_page(start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """It is killed and replaced after --worker_timeout."""
    run = start(counting(tmp_path), parallelism=2, worker_timeout=2.0)
    # The first heartbeat of a worker may take longer.
    wait_until(lambda: len((run.status().get("subtasks") or [[]])[0]) == 2, "work of both")
    os.kill(run.status()["tasks"][1]["pid"], signal.SIGSTOP)
    wait_until(lambda: any("hangs: no heartbeat" in line[3] for line in run.document("logs")["lines"]), "the log")
    (tmp_path / "goes on").touch()

    assert ("DONE", WRITTEN) == (run.ended(), written(tmp_path))


def raises(number: int) -> int:
    """Refuse a number."""
    if number == 150:
        raise ValueError("no such number")
    return number


@IN_BATCH
def test_a_failure_is_raised_with_its_step(parallelism: int, start: Callable[..., Run]) -> None:
    """Whatever watches the run; the port is free again."""
    run = start(lambda p: p | beam.Create(range(200)) | "Raises" >> beam.Map(raises), parallelism=parallelism)
    run.ended()
    assert isinstance(run.error, ValueError)
    assert "while running 'Raises' on element 150" in str(run.error)
    with pytest.raises(OSError):
        ask(run.page.ui_url, "/api/run")
    socket.create_server(("127.0.0.1", run.metrics_port)).close()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_engine_and_the_results_are_the_same_without_flags(parallelism: int, tmp_path: pathlib.Path) -> None:
    """The stages, of which the engine tells by their names, too."""

    def run(**flags: Any) -> tuple[list[str], list[str], Any]:
        p = beam.Pipeline(options=PipelineOptions(parallelism=parallelism, **flags))
        pairs = p | "Read" >> beam.Create(range(100), reshuffle=False) | "Pair" >> beam.Map(lambda n: (n % 3, n))
        sums = pairs | "Sum" >> beam.CombinePerKey(sum) | "Text" >> beam.Map(str)
        directory = tmp_path / str(len(flags))
        _ = sums | beam.io.WriteToText(str(directory / "out"))
        result = p.run()
        metrics = result.metrics()
        stages = sorted({load.stage for load in metrics.subtask_loads()})
        return written(directory), stages, metrics.query()

    with no_jobs():
        plain = run()
        watched = run(ui_port=0, metrics_port=0, health_port=0)
    assert plain == watched
    assert ["(0, 1683)", "(1, 1617)", "(2, 1650)"] == plain[0]


@pytest.mark.parametrize("flag", ["ui_port", "metrics_port", "health_port"])
def test_a_port_in_use_is_an_error_before_the_run_begins(flag: str, tmp_path: pathlib.Path) -> None:
    """The error names the option; no thread and no port of the others is left."""
    threads = {thread.name for thread in threading.enumerate()}
    others = {name: free_port() for name in ("ui_port", "metrics_port", "health_port")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        others[flag] = taken.getsockname()[1]
        p = beam.Pipeline(options=PipelineOptions(**others))
        _ = p | beam.Create([1]) | beam.Map(lambda n: (tmp_path / "ran").touch())
        with pytest.raises(OptionsError, match=f"option --{flag}: 127.0.0.1:{others[flag]} can't be listened at"):
            p.run()
    assert not (tmp_path / "ran").exists()
    assert threads == {thread.name for thread in threading.enumerate()}
    for port in others.values():
        socket.create_server(("127.0.0.1", port)).close()


def test_two_runs_of_a_program_are_monitored_side_by_side(start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """Each page has the steps of its own."""

    def other(p: beam.Pipeline) -> None:
        _ = p | "Other" >> beam.Create(range(20_000), reshuffle=False) | beam.ParDo(Counted(tmp_path / "goes on"))

    first, second = start(counting(tmp_path)), start(other, parallelism=2)
    wait_until(lambda: first.status().get("read", {}).get("Read/Values"), "elements of the one")
    wait_until(lambda: second.status().get("read", {}).get("Other/Values"), "elements of the other")
    assert "Read/Values" not in second.status()["read"]
    assert "Other/Values" not in first.status()["read"]
    assert "penstock_elements_read_total" in {name for name, *_ in first.samples()}
    post(first.page, "/api/requests/cancel")
    assert "CANCELLED" == first.ended()
    (tmp_path / "goes on").touch()
    assert "DONE" == second.ended()
    assert [] == written(tmp_path)


def test_a_job_is_still_asked_for_by_a_directory(start: Callable[..., Run], tmp_path: pathlib.Path) -> None:
    """With checkpoints, which its page and its endpoints show."""
    run = start(counting(tmp_path), checkpoint_dir=str(tmp_path / "kept"))
    wait_until(lambda: run.health("/readyz")[0] == 200, "a job that is ready")
    assert "checkpoint_epoch" in run.health()[1]
    assert ("penstock_checkpoints_total",) in run.samples()
    assert "savepoint" in run.document("run")["requests"]
