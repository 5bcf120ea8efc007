"""Requests that have to be refused, each to a running page; the job goes on."""

from __future__ import annotations

import json
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.programs.running_program import wait_until
from support.runners.running_pages import ask, document, post, running

SAVEPOINT = "/api/requests/savepoint"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running job."""
    with running(tmp_path_factory.mktemp("refused")) as result:
        wait_until(lambda: document(result, "checkpoints")["checkpoints"], "a checkpoint")
        yield result
        # Nothing that was refused has had an effect.
        assert "RUNNING" == result.state
        assert not document(result, "errors")["errors"]


def _json_headers(page: Any, **headers: str) -> dict[str, str]:
    own = {"Authorization": f"Bearer {page.ui_token}", "Content-Type": "application/json"}
    return own | {name.replace("_", "-"): value for name, value in headers.items()}


POSTS = {
    "no token": (401, lambda page: {"Content-Type": "application/json"}),
    "an empty token": (401, lambda page: _json_headers(page, Authorization="Bearer ")),
    "a wrong token": (401, lambda page: _json_headers(page, Authorization="Bearer " + "x" * 32)),
    "a token of another scheme": (401, lambda page: _json_headers(page, Authorization=f"Basic {page.ui_token}")),
    "a token that isn't ASCII": (401, lambda page: _json_headers(page, Authorization="Bearer \xe9\xe9")),
    "another origin": (403, lambda page: _json_headers(page, Origin="http://evil.example")),
    "the null origin": (403, lambda page: _json_headers(page, Origin="null")),
    "another port of this host": (403, lambda page: _json_headers(page, Origin="http://127.0.0.1:1")),
    "the other scheme": (403, lambda page: _json_headers(page, Origin="https://" + urlsplit(page.ui_url).netloc)),
    "another site": (403, lambda page: _json_headers(page, Sec_Fetch_Site="cross-site")),
    "a name that was rebound": (421, lambda page: _json_headers(page, Host="rebound.example:8081")),
    "a host that is no host": (421, lambda page: _json_headers(page, Host="127.0.0.1@[")),
    "a form": (415, lambda page: _json_headers(page) | {"Content-Type": "application/x-www-form-urlencoded"}),
    "a declared length beyond the limit": (413, lambda page: _json_headers(page, Content_Length="1000000000")),
}


@pytest.mark.parametrize("what", POSTS)
def test_a_request_is_refused_with(what: str, page: Any) -> None:
    """A status that says why, and no savepoint."""
    status, headers = POSTS[what]
    before = len([each for each in document(page, "checkpoints")["checkpoints"] if each["checkpoint"] == "savepoint"])

    answer = ask(page.ui_url, SAVEPOINT, "POST", b"{}", headers(page))

    assert status == answer.status
    assert page.ui_token.encode() not in answer.body
    after = [each for each in document(page, "checkpoints")["checkpoints"] if each["checkpoint"] == "savepoint"]
    assert before == len(after)


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/..%2f..%2fpyproject.toml",
        "/page.js/../../app.py",
        "//etc/passwd",
        "/app.py",
        "/api/requests/../../etc/passwd",
        "/api/nothing",
    ],
)
def test_a_path_leads_to_no_file(path: str, page: Any) -> None:
    """Only the files of the page have paths."""
    answer = ask(page.ui_url, path)

    assert 404 == answer.status
    assert b"root:" not in answer.body


REFUSED: dict[str, tuple[int, str, str, bytes]] = {
    "a request that there is not": (404, "POST", "/api/requests/format", b"{}"),
    "a body that is no JSON": (400, "POST", SAVEPOINT, b"{"),
    "a body that is no object": (400, "POST", SAVEPOINT, b"[1]"),
    "a body that is too large": (413, "POST", SAVEPOINT, b"x" * 2_000),
    "a profile of a year": (400, "POST", "/api/profiles", b'{"seconds": 31536000}'),
    "a profile of no number": (400, "POST", "/api/profiles", b'{"seconds": "long"}'),
    "a request by GET": (405, "GET", SAVEPOINT, b""),
    "another method": (405, "DELETE", "/api/run", b""),
    "a step that there is not": (404, "GET", "/api/panes?step=Nothing", b""),
}


@pytest.mark.parametrize("what", REFUSED)
def test_with_the_token_is_refused(what: str, page: Any) -> None:
    """What is wrong in itself."""
    status, method, path, body = REFUSED[what]

    assert status == ask(page.ui_url, path, method, body or None, _json_headers(page)).status


def _raw(page: Any) -> socket.socket:
    parts = urlsplit(page.ui_url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def test_a_body_without_a_length_that_never_ends_is_refused(page: Any) -> None:
    """Chunk after chunk."""
    with _raw(page) as client:
        head = f"POST {SAVEPOINT} HTTP/1.1\r\nHost: {urlsplit(page.ui_url).netloc}\r\nTransfer-Encoding: chunked\r\n"
        head += f"Authorization: Bearer {page.ui_token}\r\n\r\n"
        client.sendall(head.encode() + b"200\r\n" + b"x" * 512 + b"\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert b"HTTP/1.1 413" in client.recv(4096)


def test_a_slow_head_is_cut_off(page: Any) -> None:
    """A client that never finishes its request (slowloris)."""
    with _raw(page) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
        began = time.monotonic()
        assert b"" == client.recv(4096)
    assert time.monotonic() - began < 20


def test_a_slow_body_is_refused(page: Any) -> None:
    """A client that announces a body, and doesn't send it."""
    with _raw(page) as client:
        head = f"POST {SAVEPOINT} HTTP/1.1\r\nHost: {urlsplit(page.ui_url).netloc}\r\nContent-Length: 10\r\n"
        client.sendall(f"{head}Authorization: Bearer {page.ui_token}\r\n\r\n".encode())
        assert b"HTTP/1.1 408" in client.recv(4096)


_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large"


def test_a_large_head_is_refused(page: Any) -> None:
    """Beyond sixteen kilobytes."""
    with _raw(page) as client:
        head = f"GET / HTTP/1.1\r\nHost: {urlsplit(page.ui_url).netloc}\r\nX-Long: {'x' * 100_000}\r\n\r\n"
        client.sendall(head.encode())
        # By the server where it arrives in parts, else by the application.
        assert client.recv(4096).split(b"\r\n")[0] in (b"HTTP/1.1 400 Bad Request", _TOO_LARGE)


def test_more_streams_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the application, which knows how many are open."""
    import asyncio

    from starlette.exceptions import HTTPException

    from penstock.ui import app
    from penstock.ui.run_model import RunModel

    class NoBackend:
        requests = ()

    monkeypatch.setattr(app, "STREAMS", 0)
    page_app = app.PageApp(RunModel(), NoBackend(), "token")  # type: ignore[arg-type]

    with pytest.raises(HTTPException) as error:
        asyncio.run(page_app._events(None))  # type: ignore[arg-type]
    assert 503 == error.value.status_code


def test_all_answers_forbid_what_a_page_does_not_need(page: Any) -> None:
    """Scripts and styles of this server only, and no frames."""
    for path in ("/", "/page.js", "/api/run", "/api/nothing"):
        headers = ask(page.ui_url, path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert ("nosniff", "no-store") == (headers["x-content-type-options"], headers["cache-control"])
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_the_token_is_in_no_document(page: Any) -> None:
    """Of those that need none."""
    names = ("run", "graph", "status", "checkpoints", "errors", "logs", "panes", "profiles")
    shown = b"".join(json.dumps(document(page, name)).encode() for name in names)
    assert page.ui_token.encode() not in shown
    assert 200 == post(page, SAVEPOINT).status


def test_the_token_is_not_in_the_arguments_of_the_server(page: Any) -> None:
    """Which other users of the machine can read."""
    arguments = pathlib.Path(f"/proc/{page._observers.page.pid}/cmdline").read_bytes()
    assert b"serve_job" in arguments
    assert page.ui_token.encode() not in arguments
