"""Health of a run for supervisors: an HTTP endpoint, and notification of a service manager.

With `--health_port=PORT`, http://127.0.0.1:PORT/healthz answers 200 while the run is live, and /readyz while it is
ready; otherwise they answer 503.  The body is a JSON object with the phase, and of a job with restarts and the last
checkpoint.  Other hosts can read it only with `--health_host`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from ....sdk.options import StreamingOptions
from .health import Health, HealthMonitor, MonitoredRun
from .http_port import HttpPort
from .service_manager import ServiceManager

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

# The longest interval between two looks, in seconds, and the number of looks within the time-out or the watchdog's.
_SELDOM, _LOOKS = 0.5, 4


class HealthWatch:
    """Watches the health of a run on a thread of its own, until it is closed.

    Args:
      manager: the service manager to tell; None for none.
      pause: seconds between two looks.

    Attributes:
      health: the health at the last look.
    """

    def __init__(self, monitor: HealthMonitor, manager: ServiceManager | None, pause: float) -> None:
        self._monitor = monitor
        self._manager = manager
        self._pause = pause
        self.health = monitor.look()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock health", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.wait(self._pause):
            self._look()

    def _look(self) -> None:
        self.health = self._monitor.look()
        if self._manager is not None:
            self._manager.tell(self.health)

    def close(self) -> None:
        """Look for the last time, and end the thread."""
        self._is_over.set()
        self._thread.join()
        self._look()


class HealthPort:
    """The health of a run, as far as the options or a service manager ask for it, until it is closed.

    Attributes:
      url: the URL of the endpoint, without a path; None without `--health_port`.

    Raises `OptionsError` if the port is not available.
    """

    def __init__(self, run: MonitoredRun, streaming: StreamingOptions) -> None:
        manager = ServiceManager.of()
        self.url: str | None = None
        self._watch: HealthWatch | None = None
        self._port: HttpPort | None = None
        if streaming.health_port is None and manager is None:
            return
        timeout = float(streaming.health_timeout)
        watchdog = timeout if manager is None or manager.watchdog is None else manager.watchdog
        pause = min(_SELDOM, timeout / _LOOKS, watchdog / _LOOKS)
        monitor = HealthMonitor(run, round(timeout * 1_000_000))
        watch = self._watch = HealthWatch(monitor, manager, pause)
        if streaming.health_port is None:
            return
        try:
            application = application_of(lambda: watch.health)
            self._port = HttpPort(application, "health_port", streaming.health_port, streaming.health_host)
        except BaseException:
            watch.close()
            raise
        self.url = f"http://{self._port.address}"

    def close(self) -> None:
        """Stop the endpoint."""
        if self._port is not None:
            self._port.close()
        if self._watch is not None:
            self._watch.close()


def application_of(health: Callable[[], Health]) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Return the WSGI application that answers /healthz and /readyz."""
    answers: dict[str, Callable[[Health], bool]] = {
        "/healthz": lambda found: found.is_live,
        "/readyz": lambda found: found.is_ready,
    }

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        kind, extra = "application/json", []
        if path not in answers:
            status, kind, body = "404 Not Found", "text/plain", b"expected /healthz or /readyz\n"
        elif method not in ("GET", "HEAD"):
            status, kind, body = "405 Method Not Allowed", "text/plain", b"expected GET\n"
            extra = [("Allow", "GET, HEAD")]
        else:
            found = health()
            status = "200 OK" if answers[path](found) else "503 Service Unavailable"
            body = msgspec.json.encode(found.described()) + b"\n"
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"), *extra]
        start_response(status, headers)
        return [b"" if method == "HEAD" else body]

    return application
