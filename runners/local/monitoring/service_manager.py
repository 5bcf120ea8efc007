"""Notification of a service manager, such as systemd, by the protocol of sd_notify(3).

A service of `Type=notify` has the environment variable `NOTIFY_SOCKET`.  The job tells its manager when it is ready and
when it stops.  With `WatchdogSec=` it also tells it that it is live, and the manager kills it when it no longer does.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from ..job.status import Phase
from .health import Health


class ServiceManager:
    """The service manager that has started this process.

    Args:
      address: the address of its socket; an `@` in front stands for the abstract namespace.
      watchdog: the seconds within which it expects to hear that the job is live; None if it doesn't.
    """

    def __init__(self, address: str, watchdog: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog = watchdog
        self._is_ready = False
        self._text = ""

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> ServiceManager | None:
        """Return the service manager of this process, or None.

        >>> ServiceManager.of({"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "60000000"}).watchdog
        60.0
        """
        address = environ.get("NOTIFY_SOCKET")
        if not address:
            return None
        micros, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
        is_ours = not pid or pid == str(os.getpid())
        return cls(address, int(micros) / 1_000_000 if is_ours and micros.isdigit() else None)

    def tell(self, health: Health) -> None:
        """Send what has changed, and that the job is live if it is."""
        news = []
        # A service that ends without having been ready has failed, and would be restarted.
        is_done = health.phase is Phase.ENDED and health.is_live
        if (health.is_ready or is_done) and not self._is_ready:
            self._is_ready = True
            news.append("READY=1")
        if health.phase in (Phase.STOPPING, Phase.ENDED):
            news.append("STOPPING=1")
        text = health.why or health.phase.value
        if text != self._text:
            self._text = text
            news.append(f"STATUS={text}")
        if health.is_live and self.watchdog is not None:
            news.append("WATCHDOG=1")
        if news:
            self._send("\n".join(news))

    def _send(self, message: str) -> None:
        # A manager that is gone doesn't end the job.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as client:
            client.settimeout(1.0)
            client.connect(self._address)
            client.sendall(message.encode())
