"""The application: GET requests for JSON and the page's files, server-sent events, and POST requests with the token.

Refused are other hosts and origins, a missing or wrong token, unknown paths, large or slow bodies, and more open
streams than `STREAMS`.  Static files are read once, by their names, so that no path of a request reaches a file system.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..sdk.errors import UnsupportedError
from .run_model import RunModel

# The largest body of a request in bytes, and seconds until it has to be there.
LARGEST_BODY, BODY_SECONDS = 1_024, 5.0

# The longest headers of a request, in bytes.
LONGEST_HEAD = 16_384

# Open streams of events; the server takes more connections than that.
STREAMS = 256

# Seconds between two events of a stream, if there is news; and without.
_PAUSE, _ALIVE = 0.25, 10.0

# Seconds that a client may take to receive an event, and those after its last request in which the page counts as open.
_SENDING, _OPEN = 10.0, 5.0

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

REQUESTS = ("savepoint", "stop", "drain", "cancel", "restart")

# The longest profile, in seconds.
_LONGEST_PROFILE = 60.0


class Backend(Protocol):
    """What the application asks for: the job, or the directory of one."""

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that it takes."""

    async def request(self, kind: str) -> dict[str, Any]:
        """Execute a request; return `is_done`, `text` and `epoch`."""

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Say whether the page is open, and what it draws."""

    def profile(self, seconds: float) -> int:
        """Begin a profile, and return its number.  Raises `UnsupportedError` where there are none."""


class PageApp:
    """The application of one page.

    Args:
      model: the run.
      backend: where requests go.
      token: allows POST requests.
      hosts: names of this host beside localhost and addresses.
    """

    def __init__(self, model: RunModel, backend: Backend, token: str, hosts: tuple[str, ...] = ()) -> None:
        self._model = model
        self._backend = backend
        self._token = token
        self._hosts = {"localhost", *hosts}
        self._news = asyncio.Condition()
        self._streams = 0
        self._used_at = float("-inf")
        self._is_open = False
        self._is_over = False
        self._tasks: set[asyncio.Task[None]] = set()
        documents: Mapping[str, Callable[[], Any]] = {
            "run": self._run,
            "graph": model.graph,
            "status": model.status,
            "checkpoints": model.checkpoints,
            "errors": model.errors,
            "logs": model.logs,
            "profiles": model.profiles,
        }
        routes = [Route(f"/api/{name}", self._document(of), methods=["GET"]) for name, of in documents.items()]
        routes += [
            Route("/api/panes", self._panes, methods=["GET"]),
            Route("/api/events", self._events, methods=["GET"]),
            Route("/api/requests/{kind}", self._request, methods=["POST"]),
            Route("/api/profiles", self._profile, methods=["POST"]),
        ]
        static = files(__package__) / "static"
        for file in static.iterdir():
            kind = file.name.rpartition(".")[2]
            if kind in _TYPES:
                path = "/" if file.name == "index.html" else f"/{file.name}"
                routes.append(Route(path, _static(file.read_bytes(), _TYPES[kind]), methods=["GET"]))
        self.app: ASGIApp = _Guard(
            Starlette(routes=routes, exception_handlers={HTTPException: _failed, Exception: _broken}), self._hosts
        )

    # News

    def changed(self) -> None:
        """Tell the open streams that the model has changed."""
        task = asyncio.get_running_loop().create_task(self._notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def close(self) -> None:
        """End the streams, after a last event."""
        self._is_over = True
        await self._notify()

    def look(self) -> None:
        """Tell the backend whether the page is open; to be called every second."""
        now = asyncio.get_running_loop().time()
        is_open = self._streams > 0 or now - self._used_at < _OPEN
        if is_open != self._is_open:
            self._is_open = is_open
            self._backend.observe(is_open, *self._model.drawn)

    def _used(self) -> None:
        self._used_at = asyncio.get_running_loop().time()
        self.look()

    # GET

    def _run(self) -> dict[str, Any]:
        return {**self._model.run(), "requests": list(self._backend.requests)}

    def _document(self, of: Callable[[], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self._used()
            return _json(of())

        return answer

    async def _panes(self, request: Request) -> Response:
        step, key = request.query_params.get("step"), request.query_params.get("key")
        if step is not None and self._model.is_live:
            if step not in self._model.panes()["steps"]:
                raise HTTPException(404, f"there is no grouping {step!r}")
            if self._model.draw(step, key or None):
                self._backend.observe(True, *self._model.drawn)
                self._is_open = True
        self._used()
        return _json(self._model.panes())

    async def _events(self, request: Request) -> Response:
        if self._streams >= STREAMS:
            raise HTTPException(503, f"{STREAMS} pages are open already", {"Retry-After": "10"})
        return _EventStream(self)

    async def stream(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send the versions of the resources whenever they change, until the page is closed."""
        self._streams += 1
        self.look()
        sent: dict[str, int] | None = None
        try:
            while True:
                if sent != self._model.versions:
                    sent = dict(self._model.versions)
                    data = msgspec.json.encode({"versions": sent, "state": self._model.run()["state"]})
                    await asyncio.wait_for(send(b"event: versions\ndata: " + data + b"\n\n"), _SENDING)
                if self._is_over:
                    await asyncio.wait_for(send(b"event: over\ndata: {}\n\n"), _SENDING)
                    return
                await asyncio.sleep(_PAUSE)
                async with self._news:
                    if sent == self._model.versions and not self._is_over:
                        try:
                            await asyncio.wait_for(self._news.wait(), _ALIVE)
                        except TimeoutError:
                            pass
                if sent == self._model.versions and not self._is_over:
                    await asyncio.wait_for(send(b": alive\n\n"), _SENDING)
        finally:
            self._streams -= 1

    # POST

    async def _allowed(self, request: Request) -> dict[str, Any]:
        """Return the content of a POST request.  Raises `HTTPException` for one that is refused."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.encode(), self._token.encode()):
            raise HTTPException(401, "the token is missing or wrong; the terminal of the run shows it")
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > LARGEST_BODY:
                        raise HTTPException(413, f"expected a body of at most {LARGEST_BODY} bytes")
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time") from None
        except ClientDisconnect:
            raise HTTPException(400, "the client has disconnected") from None
        if not body:
            return {}
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "expected a body of application/json")
        try:
            return msgspec.json.decode(bytes(body), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise HTTPException(400, f"expected a JSON object: {error}") from None

    async def _request(self, request: Request) -> Response:
        await self._allowed(request)
        kind = request.path_params["kind"]
        if kind not in REQUESTS:
            raise HTTPException(404, f"there is no request {kind!r}; expected one of {', '.join(REQUESTS)}")
        if kind not in self._backend.requests:
            raise HTTPException(409, f"this run doesn't take the request {kind}")
        answer = await self._backend.request(kind)
        return _json(answer, 200 if answer["is_done"] else 409)

    async def _profile(self, request: Request) -> Response:
        content = await self._allowed(request)
        seconds = content.get("seconds", 10.0)
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds <= _LONGEST_PROFILE:
            raise HTTPException(400, f"seconds: expected a number up to {_LONGEST_PROFILE:g}, got {seconds!r}")
        try:
            return _json({"number": self._backend.profile(float(seconds))}, 202)
        except UnsupportedError as error:
            raise HTTPException(409, str(error)) from None


class _EventStream(Response):
    """A response of server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, app: PageApp) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def send_chunk(chunk: bytes) -> None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

        async def until_disconnected() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        streaming = asyncio.ensure_future(self._app.stream(send_chunk))
        gone = asyncio.ensure_future(until_disconnected())
        done, pending = await asyncio.wait({streaming, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        # A client that doesn't read is disconnected.
        failed = streaming in done and streaming.exception() is not None
        if not failed and gone not in done:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif failed:
            raise ConnectionAbortedError("a client did not read its events")


class _Guard:
    """Refuses requests of other hosts and origins, and adds headers to all answers.

    A page of another origin could reach this server by a name that resolves to its address (DNS rebinding), so the Host
    header has to be an address, localhost, or a name that was given.
    """

    def __init__(self, app: ASGIApp, hosts: set[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        if scope["type"] != "http":
            return
        refusal = self._refusal(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        if sum(len(name) + len(value) for name, value in request.headers.raw) > LONGEST_HEAD:
            return _text(431, f"expected headers of at most {LONGEST_HEAD} bytes")
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._is_known(hosts[0]):
            return _text(421, "this host is not known here")
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            return _text(403, "requests of other origins are refused")
        site = request.headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and request.url.path != "/":
            return _text(403, "requests of other sites are refused")
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return _text(413, f"expected a body of at most {LARGEST_BODY} bytes")
        if request.method not in ("GET", "HEAD", "POST"):
            return _text(405, "expected GET or POST")
        return None

    def _is_known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _json(content: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def _text(status: int, text: str) -> Response:
    return Response(msgspec.json.encode({"error": text}), status, media_type="application/json")


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = _text(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def _broken(request: Request, error: Exception) -> Response:
    return _text(500, type(error).__name__)


def _static(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
