"""Jobs with a page, and plain HTTP requests to it."""

from __future__ import annotations

import http.client
import json
import pathlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.triggers import AccumulationMode, AfterProcessingTime, AfterWatermark


def busy(number: int) -> int:
    """Take a millisecond, which others may use."""
    time.sleep(0.001)
    return number


def keyed(number: int) -> tuple[str, int]:
    """Give two thirds of the numbers one key."""
    return "often" if number % 3 else "seldom", number % 10


def retracting_sums(p: beam.Pipeline, rate: int = 200, until: int | None = None) -> None:
    """Sum numbers in windows of a second, with early panes that are retracted."""
    numbers = p | "Read" >> beam.io.GenerateSequence(0, until, rate, 1, partitions=2)
    windows = (
        numbers
        | "Busy" >> beam.Map(busy)
        | beam.WindowInto(
            beam.window.FixedWindows(1),
            trigger=AfterWatermark(early=AfterProcessingTime(0.3)),
            accumulation_mode=AccumulationMode.RETRACTING,
        )
    )
    _ = windows | "Pairs" >> beam.Map(keyed) | "Sum" >> beam.CombinePerKey(sum) | "Out" >> beam.Map(lambda pair: pair)


@contextmanager
def running(directory: pathlib.Path | None = None, build: Any = retracting_sums, **flags: Any) -> Iterator[Any]:
    """Run a job with a page at a free port, and cancel it at the end of the block."""
    more = {} if directory is None else {"checkpoint_dir": str(directory / "kept"), "checkpoint_interval": 0.3}
    p = beam.Pipeline(options=PipelineOptions(**{"ui_port": 0, **more, **flags}))
    build(p)
    result = p.run()
    try:
        yield result
    finally:
        if result.state == "RUNNING":
            result.cancel()


class Page(NamedTuple):
    """The page at a URL, for `document` and `post`."""

    ui_url: str
    ui_token: str = ""


def printed_page(capfd: pytest.CaptureFixture[str]) -> Page:
    """The page that a run prints, as soon as it does."""
    said: list[str] = []

    def lines() -> list[str]:
        said.append(capfd.readouterr().err)
        return [line for line in "".join(said).splitlines() if line.startswith(("Page of the run: ", "Token "))]

    wait_until(lambda: len(lines()) == 2, "the URL and the token")
    return Page(*(line.rpartition(" ")[2] for line in lines()))


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    url: str, path: str, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> Answer:
    """Send a request as it is given: no header is added that is given, and the path stays as it is."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        given = {name.lower() for name in headers or {}}
        connection.putrequest(method, path, skip_host="host" in given, skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if body is not None and not given & {"content-length", "transfer-encoding"}:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def document(result: Any, name: str) -> Any:
    """Return a document of the page of a job."""
    answer = ask(result.ui_url, f"/api/{name}")
    assert 200 == answer.status, answer
    return answer.json


def post(result: Any, path: str, content: dict[str, Any] | None = None) -> Answer:
    """Send a request with the token."""
    headers = {"Authorization": f"Bearer {result.ui_token}", "Content-Type": "application/json"}
    return ask(result.ui_url, path, "POST", json.dumps(content or {}).encode(), headers)
