"""The health of a running job: over HTTP, and for a service manager."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.programs.running_program import RunningProgram, wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.runners.local.monitoring.service_manager import ServiceManager
from penstock.sdk.errors import OptionsError


def started(directory: pathlib.Path, function: Callable[[int], int] = abs, **flags: Any) -> Any:
    """Start a stream whose health is served."""
    given = {"checkpoint_interval": 0.1, "checkpoint_dir": str(directory / "kept"), "health_port": 0, **flags}
    p = beam.Pipeline(options=PipelineOptions(**given))
    numbers = p | beam.io.GenerateSequence(0, None, 200, 1, partitions=2)
    _ = numbers | "Work" >> beam.Map(function) | beam.WithKeys(0) | beam.Map(lambda pair: pair)
    return p.run()


def asked(result: Any, path: str, method: str = "GET") -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    connection = http.client.HTTPConnection(result.health_url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def statuses(result: Any) -> tuple[int, int]:
    """Return the statuses of /healthz and /readyz."""
    return asked(result, "/healthz")[0], asked(result, "/readyz")[0]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_that_processes_records_is_live_and_ready(parallelism: int, tmp_path: pathlib.Path) -> None:
    """The body says which checkpoint is the last, and how old it is."""
    result = started(tmp_path, parallelism=parallelism)
    wait_until(lambda: asked(result, "/readyz")[0] == 200, "a ready job")
    wait_until(lambda: json.loads(asked(result, "/readyz")[1])["checkpoint_epoch"], "a checkpoint")
    body = json.loads(asked(result, "/healthz")[1])
    result.cancel()

    assert 0 < body.pop("checkpoint_epoch")
    assert 0 <= body.pop("checkpoint_age_seconds") < 60
    assert {"live": True, "ready": True, "phase": "running", "why": "", "restarts": 0} == body


def test_a_job_that_waits_for_its_restart_is_live_but_not_ready(tmp_path: pathlib.Path) -> None:
    """A restart of the process wouldn't help.  The error, which may contain data, isn't shown."""

    def fails(number: int) -> int:
        raise RuntimeError("a secret")

    result = started(tmp_path, fails, restart_delay=600)
    wait_until(lambda: b'"restarting"' in asked(result, "/readyz")[1], "a failure")
    found, body = statuses(result), asked(result, "/readyz")[1]
    result.cancel()

    assert (200, 503) == found
    assert b"secret" not in body


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_with_a_function_that_does_not_return_is_not_live(parallelism: int, tmp_path: pathlib.Path) -> None:
    """The reason names the step.  When the function has returned, the job is live again."""
    goes_on = tmp_path / "goes on"

    def waits(number: int) -> int:
        if number == 10:
            wait_until(goes_on.exists, "the end of the test")
        return number

    result = started(tmp_path, waits, parallelism=parallelism, worker_timeout=0.5, health_timeout=0.5)
    wait_until(lambda: asked(result, "/healthz")[0] == 503, "the function")
    wait_until(lambda: "has not returned" in json.loads(asked(result, "/healthz")[1])["why"], "the reason")
    why = json.loads(asked(result, "/healthz")[1])["why"]
    ready = asked(result, "/readyz")[0]
    goes_on.touch()
    wait_until(lambda: statuses(result) == (200, 200), "the function's end")
    result.cancel()

    assert "'Work'" in why
    assert 503 == ready


def test_the_endpoint_answers_nothing_else(tmp_path: pathlib.Path) -> None:
    """HEAD has the status without the body."""
    result = started(tmp_path)
    wait_until(lambda: asked(result, "/readyz")[0] == 200, "a ready job")
    found = {
        "another path": asked(result, "/metrics")[0],
        "another method": asked(result, "/healthz", "POST")[0],
        "HEAD": asked(result, "/healthz", "HEAD"),
    }
    result.cancel()
    assert {"another path": 404, "another method": 405, "HEAD": (200, b"")} == found


def test_the_endpoint_is_on_the_loopback_interface_and_ends_with_the_job(tmp_path: pathlib.Path) -> None:
    """Other hosts read it with --health_host only."""
    result = started(tmp_path, parallelism=2)
    host, port = result.health_url.removeprefix("http://").split(":")
    result.cancel()
    assert "127.0.0.1" == host
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=30)


def test_a_port_in_use_is_an_error_before_the_job_starts(tmp_path: pathlib.Path) -> None:
    """The error names the option, and no thread is left."""
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionsError) as error:
            started(tmp_path, health_port=port)
    assert str(error.value).startswith(f"option --health_port: 127.0.0.1:{port} can't be listened at: ")
    assert before == threading.active_count()


# --- Service managers


@pytest.fixture
def manager(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager, in this process's environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        server.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield server


def heard_until(server: socket.socket, wanted: str) -> list[str]:
    """Return the lines of all messages up to the one with this line."""
    lines: list[str] = []
    while wanted not in lines:
        lines.extend(server.recv(4096).decode().splitlines())
    return lines


def test_a_service_manager_hears_when_the_job_is_ready_lives_and_stops(
    manager: socket.socket, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any option."""
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    result = started(tmp_path, health_port=None)
    began = heard_until(manager, "READY=1")
    lived = heard_until(manager, "WATCHDOG=1")
    result.stop_with_savepoint()
    ended = heard_until(manager, "STATUS=ended")

    assert result.health_url is None
    assert began.count("READY=1") == 1
    assert "READY=1" not in lived + ended
    assert "STOPPING=1" in ended


def test_a_service_manager_does_not_hear_that_a_stuck_job_lives(
    manager: socket.socket, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is the status that `systemctl status` shows."""
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    goes_on = tmp_path / "goes on"

    def waits(number: int) -> int:
        wait_until(goes_on.exists, "the end of the test")
        return number

    result = started(tmp_path, waits, worker_timeout=0.3, health_timeout=0.3)
    while "a function has not returned for" not in (message := manager.recv(4096).decode()):
        pass
    goes_on.touch()
    result.cancel()
    assert message.startswith("STATUS='Work': a function has not returned for")
    assert "WATCHDOG" not in message


def test_the_watchdog_of_another_process_is_ignored() -> None:
    """The environment is inherited."""
    found = ServiceManager.of({"NOTIFY_SOCKET": "@n", "WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid() + 1)})
    assert found is not None
    assert None is found.watchdog


# --- What a signal does

STREAM = """
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions

with beam.Pipeline(options=PipelineOptions(checkpoint_interval=0.1)) as p:
    numbers = p | beam.io.GenerateSequence(0, None, 500, 1)
    _ = numbers | beam.Map(lambda n: print("number", n, flush=True) if n == 100 else None)
print("after the pipeline:", p.result.state)
"""


@pytest.mark.parametrize(
    ("how", "state", "told"),
    [
        ("drain", "DRAINED", "the pipeline stops reading, and processes what it has read"),
        ("cancel", "CANCELLED", "the pipeline stops, and the next start repeats the work after the last checkpoint"),
    ],
)
def test_a_signal_does_what_the_option_says(how: str, state: str, told: str, tmp_path: pathlib.Path) -> None:
    """The program exits with status 0."""
    with RunningProgram(tmp_path, STREAM, "--checkpoint_dir=kept", f"--on_signal={how}") as program:
        program.wait_until(lambda: "number 100" in program.log, "a hundred numbers")
        program.signal(signal.SIGTERM)
        code, log = program.ended(), program.log
    assert 0 == code
    assert f"number 100\npenstock: {told}; a second signal ends it at once\nafter the pipeline: {state}\n" == log


def test_a_savepoint_needs_a_directory(tmp_path: pathlib.Path) -> None:
    """Refused before the job starts."""
    with pytest.raises(OptionsError) as error:
        started(tmp_path, on_signal="savepoint", checkpoint_dir=None)
    expected = "option --on_signal: expected a --checkpoint_dir for the savepoint, or drain or cancel, got 'savepoint'"
    assert expected == str(error.value)
