"""Rows enriched by services: a web service that fails, hangs, is slow or limits rates, a database, and Redis."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pathlib
import sqlite3
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from servers.loopback_server import free_port, lasting_port
from servers.severed import SeverableProxy
from support.pipelines.checks import check
from support.programs.running_program import wait_until

import penstock as beam
from penstock.io.enrichment_handlers import HttpEnrichmentHandler, RedisEnrichmentHandler, SqlEnrichmentHandler
from penstock.testing import TestPipeline
from penstock.transforms.enrichment import Enrichment
from penstock.transforms.services.request_response import (
    ExponentialBackOffRepeater,
    UserCodeExecutionException,
    UserCodeQuotaException,
    UserCodeTimeoutException,
)

ITEMS = [beam.Row(item="tea", n=1), beam.Row(item="milk", n=2)]
PRICED = [beam.Row(item="tea", n=1, price=3), beam.Row(item="milk", n=2, price=4)]


class Service:
    """A web service on the loopback interface, in a thread.

    Attributes:
      asked: how often each path was requested.
      most: the greatest number of simultaneous requests.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.running = self.most = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready])
        self._thread.start()
        ready.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{{item}}"

    def _run(self, ready: threading.Event) -> None:
        async def serve() -> None:
            self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]
            ready.set()

        self._loop.run_until_complete(serve())
        self._loop.run_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                status, content = await self._content(line.split()[1].decode().strip("/"))
                head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(content)}\r\n\r\n"
                writer.write(head.encode() + content)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _content(self, path: str) -> tuple[int, bytes]:
        self.asked[path] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if path == "hangs":
                await asyncio.sleep(60)
            if path == "limited" and self.asked[path] < 3:
                return 429, b""
            if path == "fails":
                return 500, b""
            if path == "list":
                return 200, b"[1]"
            await asyncio.sleep(0.03)
            return 200, json.dumps({"price": len(path), "item": "another"}).encode()
        finally:
            self.running -= 1

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.stop()


SOON = ExponentialBackOffRepeater(num_retries=2, initial_delay_secs=0.02)


def test_a_web_service_is_asked_for_each_row(pipeline: Any, service: Service) -> None:
    """Fields of the row take precedence over those of the answer."""
    with pipeline as p:
        check(PRICED, p | beam.Create(ITEMS) | Enrichment(HttpEnrichmentHandler(service.url)))
    assert Counter({"tea": 1, "milk": 1}) == service.asked


def test_no_more_requests_run_at_once_than_allowed(service: Service) -> None:
    """And as many do."""
    rows = [beam.Row(item=f"item {i}") for i in range(30)]
    found = rows | Enrichment(HttpEnrichmentHandler(service.url), concurrency=6)
    assert (30, 6) == (len(found), service.most)
    assert service.asked["item%201"] == 1


def test_a_service_that_fails_hangs_or_limits_rates_is_asked_again_or_makes_dead_letters(service: Service) -> None:
    """A limit and a timeout are tried again, an error isn't; the reasons name the URL."""
    enriched = Enrichment(HttpEnrichmentHandler(service.url), timeout=0.2, repeater=SOON)
    rows = [beam.Row(item=item) for item in ("hangs", "limited", "fails", "list")]
    with beam.Pipeline() as p:
        good, bad = p | beam.Create(rows) | enriched.with_exception_handling()
        check([beam.Row(item="limited", price=7)], good)
        check(
            [
                ("hangs", UserCodeTimeoutException.__name__),
                ("fails", UserCodeExecutionException.__name__),
                ("list", UserCodeExecutionException.__name__),
            ],
            bad | beam.MapTuple(lambda row, error: (row.item, error[0].__name__)),
        )
    assert Counter({"hangs": 3, "limited": 3, "fails": 1, "list": 1}) == service.asked


def test_a_failure_fails_the_pipeline_without_exception_handling(service: Service) -> None:
    """The error names the address and the status."""
    with pytest.raises(
        UserCodeExecutionException, match=f"127.0.0.1:{service.port}/fails has answered with status 500"
    ):
        [beam.Row(item="fails")] | Enrichment(HttpEnrichmentHandler(service.url))
    once = Enrichment(HttpEnrichmentHandler(service.url), repeater=ExponentialBackOffRepeater(0))
    with pytest.raises(UserCodeQuotaException, match="429"):
        [beam.Row(item="limited")] | once


# `OUTAGE=60 pytest tests/io/enrichment_handlers` has services out of reach for a minute.
OUTAGE = float(os.environ.get("OUTAGE", "1"))


@pytest.fixture(params=["http", "sql", "redis"])
def asked(request: pytest.FixtureRequest) -> tuple[int, Any]:
    """A service's port, and a function that returns the handler that asks it, for another port."""
    if request.param == "http":
        service = request.getfixturevalue("service")
        return service.port, lambda port: HttpEnrichmentHandler(f"http://127.0.0.1:{port}/{{item}}")
    server = request.getfixturevalue("postgresql" if request.param == "sql" else "redis_server")

    def url(port: int) -> str:
        return str(server.url.replace(f"127.0.0.1:{server.port}", f"127.0.0.1:{port}"))

    if request.param == "sql":
        return server.port, lambda port: SqlEnrichmentHandler(url(port), "SELECT length(?) AS price", ["item"])
    with server.client() as client:
        client.hset("lost:tea", mapping={"price": 3})
        client.hset("lost:milk", mapping={"price": 4})
    return server.port, lambda port: RedisEnrichmentHandler(url(port), "lost:{item}")


def test_a_lost_service_is_asked_until_it_answers(asked: Any, caplog: pytest.LogCaptureFixture) -> None:
    """For as long as the repeater says.  The log says once that it doesn't answer, and that it does again."""
    port, handler = asked
    # At least 2.5 times as long as the outage.
    repeater = ExponentialBackOffRepeater(num_retries=8, initial_delay_secs=OUTAGE / 50)
    found: list[Any] = []
    with SeverableProxy.running(port, lasting_port()) as proxy:
        enriched = Enrichment(handler(proxy.port), repeater=repeater)
        proxy.sever()
        thread = threading.Thread(target=lambda: found.extend(ITEMS | enriched))
        thread.start()
        wait_until(lambda: "asking again" in caplog.text, "the log says that the service is lost")
        threading.Event().wait(OUTAGE)
        proxy.join()
        # The next call may be a few outages away.
        thread.join(60 + 4 * OUTAGE)

    assert [3, 4] == sorted(int(row.price) for row in found)
    assert (1, 1) == (caplog.text.count("asking again"), caplog.text.count("the service answers again, after "))
    assert "doesn't answer" in caplog.text


def test_a_service_that_stays_lost_makes_dead_letters() -> None:
    """After the last repeat; the reason names the address."""
    handler = HttpEnrichmentHandler(f"http://127.0.0.1:{free_port()}/{{item}}")
    with beam.Pipeline() as p:
        good, bad = p | beam.Create(ITEMS) | Enrichment(handler, repeater=SOON).with_exception_handling()
        check([], good)
        check(
            [("tea", "UserCodeRemoteSystemException"), ("milk", "UserCodeRemoteSystemException")],
            bad | beam.MapTuple(lambda row, error: (row.item, error[0].__name__)),
        )


def test_answers_are_cached_up_to_a_number_and_for_a_time(service: Service) -> None:
    """The least recently used one makes room."""
    enrichment = Enrichment(HttpEnrichmentHandler(service.url), concurrency=1)
    rows = [beam.Row(item=item) for item in "aabbaca"]
    rows | enrichment.with_cache(2)
    assert Counter("abc") == service.asked
    service.asked.clear()
    rows | enrichment.with_cache(1)
    assert Counter("abaca") == service.asked
    service.asked.clear()
    rows | enrichment.with_cache(10, time_to_live=1e-9)
    assert Counter("aabbaca") == service.asked


def test_answers_are_cached_in_redis_for_all_workers(service: Service, redis_server: Any) -> None:
    """A second run asks nothing; the password is in no text."""
    password = redis_server.url.split(":")[2].partition("@")[0]
    enrichment = Enrichment(HttpEnrichmentHandler(service.url)).with_redis_cache(
        "127.0.0.1", redis_server.port, 60, password=password
    )
    assert password not in repr(enrichment._cache)
    for _ in range(2):
        assert PRICED == sorted(ITEMS | enrichment, key=lambda row: row.n)
    assert Counter({"tea": 1, "milk": 1}) == service.asked


def test_a_database_is_asked_for_each_row(pipeline: Any, tmp_path: pathlib.Path) -> None:
    """By a query whose parameters are fields of the row."""
    database = tmp_path / "shop.db"
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE items (id TEXT, price INTEGER)")
    connection.executemany("INSERT INTO items VALUES (?, ?)", [("tea", 3), ("milk", 4), ("twice", 1), ("twice", 2)])
    connection.commit()
    connection.close()
    query = "SELECT price FROM items WHERE id = ?"
    handler = SqlEnrichmentHandler(str(database), query, ["item"])
    with pipeline as p:
        check(PRICED, p | beam.Create(ITEMS) | Enrichment(handler, concurrency=4))
    unknown = [beam.Row(item="salt")]
    with pytest.raises(
        UserCodeExecutionException, match=r"the query has no row for \{'item': 'salt'\}; give a default"
    ):
        unknown | Enrichment(handler)
    with pytest.raises(UserCodeExecutionException, match="several rows"):
        [beam.Row(item="twice")] | Enrichment(handler)
    defaulting = SqlEnrichmentHandler(str(database), query, ["item"], {"price": None})
    assert [beam.Row(item="salt", price=None)] == (unknown | Enrichment(defaulting))
    with pytest.raises(ValueError, match="the query has 1 parameters, and fields are"):
        SqlEnrichmentHandler(str(database), query, ["item", "n"])


def test_redis_is_asked_for_each_row(redis_server: Any) -> None:
    """The fields of a hash are the answer; a missing one is an error, or has a default."""
    with redis_server.client() as client:
        client.hset("item:tea", mapping={"price": "3"})
    handler = RedisEnrichmentHandler(redis_server.url, "item:{item}")
    assert [beam.Row(item="tea", price="3")] == ([beam.Row(item="tea")] | Enrichment(handler))
    with pytest.raises(UserCodeExecutionException, match="there is no hash 'item:salt'; give a default"):
        [beam.Row(item="salt")] | Enrichment(handler)
    defaulting = RedisEnrichmentHandler(redis_server.url, lambda row: f"item:{row.item}", {"price": None})
    assert [beam.Row(item="salt", price=None)] == ([beam.Row(item="salt")] | Enrichment(defaulting))
    assert "drawn-from-the-well" not in repr(handler)


SECRET = "drawn-from-the-well"


@pytest.mark.parametrize(
    "url", [f"http://ann:{SECRET}@127.0.0.1:%d/{{item}}", f"http://127.0.0.1:%d/{{item}}?key={SECRET}"]
)
def test_a_password_of_a_web_service_is_in_no_log(service: Service, caplog: pytest.LogCaptureFixture, url: str) -> None:
    """The client logs each request."""
    handler = HttpEnrichmentHandler(url % service.port, headers={"Authorization": f"Bearer {SECRET}"})
    p = TestPipeline()
    _ = p | beam.Create(ITEMS) | Enrichment(handler)
    with caplog.at_level(logging.INFO):
        p.run()

    assert 2 == caplog.text.count("HTTP Request: GET")
    assert SECRET not in caplog.text + repr(handler) + repr(p.graph())


@pytest.mark.parametrize(
    "handler",
    [
        lambda: HttpEnrichmentHandler(f"http://127.0.0.1:1/{{item}}?key={SECRET}", auth=("ann", SECRET)),
        lambda: SqlEnrichmentHandler(f"postgresql+psycopg://ann:{SECRET}@127.0.0.1:1/db", "SELECT ?", ["item"]),
        lambda: RedisEnrichmentHandler(f"redis://ann:{SECRET}@127.0.0.1:1/0", "item:{item}"),
    ],
    ids=["http", "sql", "redis"],
)
def test_a_password_is_in_no_error(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing listens at the port."""
    p = TestPipeline()
    _ = p | beam.Create(ITEMS) | Enrichment(handler(), repeater=SOON)
    with caplog.at_level(logging.INFO), pytest.raises(Exception, match="while running") as e:
        p.run()

    assert SECRET not in caplog.text + repr(e.value) + "".join(traceback.format_exception(e.value))
