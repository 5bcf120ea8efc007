"""The page of a running job: its documents, its requests, and that it doesn't touch the job."""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.programs.running_program import wait_until
from support.runners.running_pages import ask, busy, document, post, retracting_sums, running

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import MissingExtraError, OptionsError

STAGE = "Busy + WindowInto + Pairs"


def share_of(keys: Any, hottest: str) -> float:
    """The share of the elements that have the hottest key; 0 if another one is the hottest."""
    key, count = keys["keys"][0]
    return count / keys["total"] if key == hottest else 0.0


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_documents_show_the_job(parallelism: int, tmp_path: pathlib.Path) -> None:
    """Rates, time and load, watermarks, keys, panes with retractions, checkpoints with parts, logs and a profile."""
    with running(tmp_path, parallelism=parallelism) as result:
        # The first request opens the page, and chooses what is drawn.
        wait_until(lambda: "Sum" in document(result, "panes")["steps"], "the graph")
        assert 200 == ask(result.ui_url, "/api/panes?step=Sum&key=%27often%27").status
        wait_until(lambda: any(pane["sign"] < 0 for pane in document(result, "panes")["panes"]), "a retraction")
        wait_until(lambda: document(result, "status")["traffic_rates"].get("0", [0])[0] > 0, "traffic")
        logging.getLogger("app").warning("said for the page")
        wait_until(lambda: any("said for" in line[3] for line in document(result, "logs")["lines"]), "the log")
        number = post(result, "/api/profiles", {"seconds": 0.5}).json["number"]
        wait_until(lambda: document(result, "profiles")["profiles"], "a profile")

        def is_busy() -> bool:
            # Of its fused stage. A bundle in which no element was timed, as the first ones, is split evenly.
            seconds = document(result, "status")["seconds"]
            busy, *others = (seconds.get(step, 0) for step in STAGE.split(" + "))
            return busy > sum(others)

        wait_until(is_busy, "time of a step in a fused stage")

        status, panes, run = (document(result, name) for name in ("status", "panes", "run"))
        assert ("RUNNING", parallelism, True) == (run["state"], run["parallelism"], run["is_live"])
        assert status["read"][STAGE] == status["written"][STAGE] > 0
        assert parallelism == len(status["subtasks"][0])
        assert all(0 <= busy <= 1 for task in status["subtasks"] for busy, _, _ in task)
        # Of samples, which are few at first.
        wait_until(
            lambda: 0.55 < share_of(document(result, "status")["hot_keys"]["Sum"], "'often'") < 0.78, "its share"
        )
        assert {"'often'"} == {each["key"] for each in panes["panes"] + panes["inputs"]}
        assert {1_000_000} == {pane["end"] - pane["start"] for pane in panes["panes"]}
        assert panes["watermarks"]
        (checkpoint, *_) = document(result, "checkpoints")["checkpoints"]
        assert len(checkpoint["parts"]) == parallelism * len(document(result, "graph")["tasks"])
        assert all(part["size"] > 0 <= part["waited"] for part in checkpoint["parts"])
        (profile,) = document(result, "profiles")["profiles"]
        assert number == profile["number"]
        assert any("Busy\nbusy (running_pages.py:" in stack for stack in profile["stacks"]), profile
        assert result.metrics().step_seconds()["Busy"] > 0


@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_edge_has_rates_and_each_step_its_backlog(parallelism: int) -> None:
    """Edges within a fused stage, too, of which a third of the elements pass the last; a slow task has a backlog."""

    def build(p: beam.Pipeline) -> None:
        numbers = p | "Read" >> beam.io.GenerateSequence(0, 10_000_000, 20_000, 1) | beam.Reshuffle()
        thirds = numbers | "Busy" >> beam.Map(busy) | "Third" >> beam.Filter(lambda n: n % 3 == 0)
        _ = thirds | "Text" >> beam.Map(str) | "Out" >> beam.Map(len)

    with running(build=build, parallelism=parallelism) as result:
        wait_until(lambda: document(result, "graph")["edges"], "the graph")
        graph = document(result, "graph")
        labels = [transform["label"] for transform in graph["transforms"]]
        edges = {labels[edge["target"]]: str(edge["pcollection"]) for edge in graph["edges"]}

        def rates() -> dict[str, list[float]]:
            return document(result, "status").get("traffic_rates", {})

        wait_until(lambda: all(rates().get(each, [0, 0])[1] > 0 for each in edges.values()), "rates of all edges")
        wait_until(lambda: document(result, "status")["traffic"][edges["Text"]][0] > 300, "elements")
        status = document(result, "status")
        assert ["elements", "bytes"] == status["estimated"][edges["Third"]]
        assert ["bytes"] == status["estimated"][edges["Reshuffle/AddRandomKeys"]]
        # Of some hundred samples.
        assert 0.2 < status["traffic"][edges["Text"]][0] / status["traffic"][edges["Third"]][0] < 0.47
        left, unknown = status["backlogs"]["Read/Read(SequenceSource)"]
        assert (True, None) == (left > 9_000_000, unknown)
        assert {} == status["unmeasured"]

        def waiting() -> list[int]:
            # Before a shuffle in one process the source waits.
            return document(result, "status")["backlogs"].get("Reshuffle/Group", [0, 0])

        if parallelism > 1:
            wait_until(lambda: waiting()[0] > 100, "the backlog")
            elements, size = waiting()
            assert 4 < size / elements < 1_000


def test_the_bottleneck_is_named_with_its_cause(tmp_path: pathlib.Path) -> None:
    """A user function that takes all of the time."""

    def build(p: beam.Pipeline) -> None:
        retracting_sums(p, rate=20_000)

    with running(tmp_path, build) as result:

        def is_named() -> bool:
            # The machine may be slower for a moment, and the bottleneck another one.
            named = document(result, "status").get("bottleneck") or {}
            return (named.get("step"), named.get("cause")) == ("Busy", "user function")

        wait_until(is_named, "the step and its cause")


def test_errors_have_element_transform_and_user_frames_and_a_restart(tmp_path: pathlib.Path) -> None:
    """The job fails once, and restarts from its checkpoint."""
    marker = tmp_path / "has-failed"

    def fails_once(number: int) -> int:
        if number == 100 and not marker.exists():
            marker.touch()
            raise ValueError("no hundreds")
        return number

    def build(p: beam.Pipeline) -> None:
        numbers = p | "Read" >> beam.io.GenerateSequence(0, None, 500, 1) | "Check" >> beam.Map(fails_once)
        _ = numbers | "Out" >> beam.Map(lambda n: n)

    with running(tmp_path, build, parallelism=2) as result:
        wait_until(lambda: document(result, "errors")["errors"], "an error")
        (error,) = document(result, "errors")["errors"]
        assert ("Check", "100", False) == (error["transform"], error["element"], error["is_final"])
        assert "test_page_of_a_job.py" in error["location"]
        assert "in fails_once" in error["frames"]
        timeline = [each["kind"] for each in document(result, "errors")["timeline"]]
        assert ["started", "restart"] == timeline
        wait_until(lambda: document(result, "run")["restarts"] == 1, "the count of restarts")


def test_a_savepoint_is_taken_and_the_job_restarts_and_drains(tmp_path: pathlib.Path) -> None:
    """The requests with the token, and their answers."""
    with running(tmp_path, lambda p: retracting_sums(p, until=None)) as result:
        wait_until(lambda: document(result, "checkpoints")["checkpoints"], "a checkpoint")
        savepoint = post(result, "/api/requests/savepoint").json
        assert savepoint["is_done"], savepoint
        kinds = {each["epoch"]: each["checkpoint"] for each in document(result, "checkpoints")["checkpoints"]}
        assert "savepoint" == kinds[savepoint["epoch"]]
        restart = post(result, "/api/requests/restart").json
        assert restart["is_done"], restart
        assert restart["text"].startswith("restarting from epoch ")
        wait_until(lambda: document(result, "run")["restarts"] == 1, "the restart")
        before = document(result, "run")["epoch"]
        wait_until(lambda: (document(result, "run")["epoch"] or 0) > (before or 0), "a checkpoint after the restart")
        assert post(result, "/api/requests/drain").json["is_done"]
        assert "DRAINED" == result.wait_until_finish()


def test_a_job_is_cancelled_from_its_page() -> None:
    """Without a directory of checkpoints, too."""
    with running() as result:
        wait_until(lambda: document(result, "run")["state"] == "RUNNING", "the start")
        assert 200 == post(result, "/api/requests/cancel").status
        wait_until(lambda: result.state == "CANCELLED", "the end")


def test_killing_the_server_does_not_touch_the_job(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """The job logs it, and goes on."""
    with running(tmp_path) as result:
        feed = result._observers.page
        wait_until(lambda: document(result, "checkpoints")["checkpoints"], "a checkpoint")
        os.kill(feed.pid, signal.SIGKILL)
        wait_until(lambda: "goes on without it" in caplog.text, "the job's log")
        done = result._job.checkpoints_completed
        wait_until(lambda: result._job.checkpoints_completed > done + 1, "more checkpoints")
        assert "DRAINED" == result.drain()


def test_a_server_that_hangs_does_not_touch_the_job(tmp_path: pathlib.Path) -> None:
    """It is stopped, so that the feed fills up; the job checkpoints and ends."""
    with running(tmp_path) as result:
        feed = result._observers.page
        wait_until(lambda: document(result, "checkpoints")["checkpoints"], "a checkpoint")
        os.kill(feed.pid, signal.SIGSTOP)
        done = result._job.checkpoints_completed
        wait_until(lambda: result._job.checkpoints_completed > done + 2, "more checkpoints")
        assert "DRAINED" == result.drain()
    assert feed._server.returncode is not None


def test_two_hundred_browsers_do_not_touch_the_job(tmp_path: pathlib.Path) -> None:
    """Each with an open stream of events; the job goes on, and further clients are answered."""
    with running(tmp_path) as result:
        parts = urlsplit(result.ui_url)
        streams: list[socket.socket] = []
        heard: list[bytes] = []

        def browse() -> None:
            stream = socket.create_connection((parts.hostname, parts.port), timeout=60)
            streams.append(stream)
            stream.sendall(f"GET /api/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
            data = b""
            while b"event: versions" not in data:
                data += stream.recv(4096)
            heard.append(data)

        browsers = [threading.Thread(target=browse) for _ in range(200)]
        for browser in browsers:
            browser.start()
        for browser in browsers:
            browser.join(60)
        assert 200 == len(heard)
        assert {b"HTTP/1.1 200 OK"} == {data.split(b"\r\n")[0] for data in heard}
        done = result._job.checkpoints_completed
        wait_until(lambda: result._job.checkpoints_completed > done + 1, "more checkpoints")
        assert 200 == ask(result.ui_url, "/api/status").status
        for stream in streams:
            stream.close()
        assert "DRAINED" == result.drain()


def test_nothing_is_observed_while_no_browser_is_open(tmp_path: pathlib.Path) -> None:
    """Samplers are attached by the first request, and removed some seconds after the last."""

    def samplers() -> int:
        slot = result._job.context.workers._slot
        return 0 if slot is None else len(slot.observer._samplers)

    with running(tmp_path) as result:
        wait_until(lambda: result._job.checkpoints_completed > 1, "checkpoints")
        assert 0 == samplers()
        document(result, "status")
        wait_until(lambda: samplers() > 0, "samplers")
        wait_until(lambda: samplers() == 0, "no samplers")


def test_the_server_listens_on_the_loopback_interface_only(tmp_path: pathlib.Path) -> None:
    """Unless another address is given."""
    with running(tmp_path) as result:
        assert "127.0.0.1" == urlsplit(result.ui_url).hostname


def test_a_port_that_is_taken_is_an_error() -> None:
    """With the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionsError) as error, running(ui_port=port):
            pass
    assert str(error.value).startswith(f"option --ui_port: 127.0.0.1:{port} can't be listened at: ")


@pytest.mark.parametrize("port", [-1, 65536, "x"])
def test_a_wrong_port_is_refused(port: Any) -> None:
    """When the pipeline is built."""
    with pytest.raises(OptionsError, match=r"--ui_port"):
        beam.Pipeline(options=PipelineOptions(ui_port=port)).run()


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every extra."""
    from penstock.runners.execution.page import feed

    monkeypatch.setattr(feed, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as error, running():
        pass
    assert "--ui_port needs the package 'starlette': pip install 'penstock[ui]'" == str(error.value)
