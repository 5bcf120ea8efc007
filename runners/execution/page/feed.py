"""The feed of a page: a thread of the job that sends events and status to the process that serves the page.

The server runs in a process of its own, `penstock.ui`, so that browsers never take the interpreter from the job, and
the end of the server, however it comes, is only the end of the page.  The two exchange lines of JSON on a pair of
sockets.  While no browser is open, the thread sends events only, and nothing is observed.
"""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import wait
from typing import Any, Protocol

import msgspec

from ....sdk.errors import OptionsError, missing_extra
from ....sdk.options import PageOptions, PipelineOptions
from ....sdk.redaction import logger_of
from ....sdk.user_code.error_text import text_or_class
from ..streaming.observation import pause_after
from .event_log import Events

_logger = logger_of(__name__)

# Seconds between two looks at what the page asks for, and between two status messages in the log.
_LOOK, _LOGGED = 0.25, 10.0

# Status messages to the page, which take milliseconds in a large job, take one part in so many of the time.
_SHARE = 1000

# How long a message may take to be sent, in seconds, before the page is given up; and how long its end may take.
_SENDING, _ENDING = 5.0, 2.0

_SERVER = "from penstock.ui.process import serve_job; serve_job()"


class Subject(Protocol):
    """What a page shows: a running job, whose methods are called on the thread of the feed.

    Attributes:
      events: its events.
      requests: the kinds of requests that it takes.
      limits: by document, why it can't be shown: of `panes` and `profiles`.
    """

    events: Events
    limits: Mapping[str, str]

    @property
    def requests(self) -> tuple[str, ...]: ...

    def graph(self) -> Mapping[str, Any]:
        """Return the graph as data."""

    def status(self) -> dict[str, Any]:
        """Return the present status as data."""

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Observe what an open page shows: the panes of this step and key."""

    def profile(self, number: int, seconds: float) -> None:
        """Sample the stacks of the workers, and add the event `profile` with this number."""

    def request(self, kind: str, number: int) -> None:
        """Execute a request, and add the event `answer` with this number."""


class PageFeed:
    """The page of a run until it is closed; and, with a log, its status there.

    Args:
      subject: what it shows.
      options: those of the pipeline.

    Attributes:
      url: the URL of the page; None without `--ui_port`.
      token: allows the requests of the page; for the user's terminal only.
      pid: the process id of the server; None without one.

    Raises `MissingExtraError` without the extra, and `OptionsError` if the port is not available.
    """

    def __init__(self, subject: Subject, options: PipelineOptions) -> None:
        page = options.view_as(PageOptions)
        self._subject = subject
        self.url: str | None = None
        self.token = secrets.token_urlsafe(24)
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._received = bytearray()
        self._is_over = threading.Event()
        self._is_open = False
        self._status_due = self._logged_at = 0.0
        self._thread: threading.Thread | None = None
        if page.ui_port is not None:
            self._start(page.ui_host, page.ui_port)

    @property
    def pid(self) -> int | None:
        return None if self._server is None else self._server.pid

    def _start(self, host: str, port: int) -> None:
        for package in ("starlette", "uvicorn"):
            if find_spec(package) is None:
                raise missing_extra(package, "ui", "--ui_port")
        listening = listen(host, port)
        host, port = listening.getsockname()[:2]
        ours, theirs = socket.socketpair()
        descriptors = [listening.fileno(), theirs.fileno()]
        command = [sys.executable, "-P", "-c", _SERVER, *map(str, descriptors)]
        # A session of its own: Ctrl-C is for the job.
        self._server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=descriptors, start_new_session=True, close_fds=True
        )
        listening.close()
        theirs.close()
        self._subject.events.keep(True)
        ours.settimeout(_SENDING)
        self._socket = ours
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        self._send([{"kind": "hello", "token": self.token, "host": host, "requests": self._subject.requests}])
        self._send([{"kind": "limits", "limits": self._subject.limits}])
        self._send([{"kind": "graph", "graph": self._subject.graph()}])
        print(f"Page of the run: {self.url}\nToken for its buttons: {self.token}", file=sys.stderr, flush=True)

    def start(self) -> None:
        """Start the thread, if there is a page or a log."""
        if self._socket is None and not self._subject.events.is_logged:
            return
        self._thread = threading.Thread(target=self._run, name="penstock page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is left, and end the server."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(_SENDING)
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(_ENDING)
            if self._server.poll() is None:
                self._server.kill()
                self._server.wait()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._receive()
                self._send_news(is_last=False)
            self._send_news(is_last=True)
        except Exception as error:  # whatever it is, the job goes on
            _logger.warning("The page of the run has failed; the run goes on without it", exc_info=True)
            self._give_up(text_or_class(error))

    def _send_news(self, is_last: bool) -> None:
        now = time.monotonic()
        events = self._subject.events
        if events.is_logged and (is_last or now >= self._logged_at + _LOGGED):
            self._logged_at = now
            events.add("status", status=self._subject.status())
        news = events.taken()
        if self._socket is None:
            return
        began = time.thread_time()
        is_due = self._is_open and (is_last or now >= self._status_due)
        if is_due:
            news.append({"kind": "status", "at": 0, "status": self._subject.status()})
        self._send(news)
        if is_due:
            took = time.thread_time() - began
            self._status_due = now + pause_after(took, _SHARE)

    def _send(self, messages: list[dict[str, Any]]) -> None:
        if self._socket is None or not messages:
            return
        try:
            self._socket.sendall(b"".join(msgspec.json.encode(each, enc_hook=str) + b"\n" for each in messages))
        except OSError as error:
            self._give_up(text_or_class(error))

    def _give_up(self, why: str) -> None:
        """Go on without the page."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._subject.events.keep(False)
            self._subject.observe(False, None, None)
            if not self._is_over.is_set():
                _logger.warning("The page of the run has ended (%s); the run goes on without it", why)

    def _receive(self) -> None:
        """Wait for a moment, and do what the page asks for."""
        if self._socket is None:
            self._is_over.wait(_LOOK)
            return
        # Unlike select, it takes any descriptor of a job with thousands of pipes.
        if not wait([self._socket], _LOOK):
            return
        try:
            data = self._socket.recv(1 << 16)
        except OSError as error:
            self._give_up(text_or_class(error))
            return
        if not data:
            self._give_up("its server has exited")
            return
        self._received += data
        *lines, rest = bytes(self._received).split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            self._obey(msgspec.json.decode(line))

    def _obey(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "observe":
            if message["is_open"] and not self._is_open:
                self._status_due = 0.0
            self._is_open = message["is_open"]
            self._subject.observe(message["is_open"], message["step"], message["key"])
        elif kind == "profile":
            self._subject.profile(message["number"], message["seconds"])
        elif kind == "request":
            self._subject.request(message["request"], message["number"])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens for browsers.  Raises `OptionsError` if the port is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
    except (OSError, OverflowError) as error:
        raise OptionsError(f"option --ui_port: {host}:{port} can't be listened at: {text_or_class(error)}") from error
    return listening
