"""The page of a finished job, or of one in another process, from its checkpoint directory and its log of events."""

from __future__ import annotations

import asyncio
import secrets
import sys
from contextlib import suppress
from typing import Any

from ..runners.execution.checkpoints.control_requests import RequestKind, ask
from ..runners.execution.checkpoints.storage import Disk, disk_of
from ..runners.execution.page.event_log import NAME, read_events
from ..runners.execution.page.feed import listen
from ..sdk.errors import PenstockError, UnsupportedError
from .app import PageApp
from .run_model import RunModel
from .serving import PageServer

_ON_ITS_OWN_PAGE = "measured by a job with --ui_port, while its own page is open"

# Seconds between two looks at the log.
_LOOK = 1.0

# Seconds that a request may take.
_ANSWER = 60.0


class DirectoryBackend:
    """The job whose checkpoint directory this is; it takes requests by files in it."""

    def __init__(self, disk: Disk, directory: str, model: RunModel) -> None:
        self._disk = disk
        self._directory = directory
        self._model = model

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that it takes: none if the run, such as one on Spark, doesn't look for them."""
        return tuple(kind.value for kind in RequestKind) if self._model.is_asked_by_files else ()

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Do nothing: the job has no page that is open."""

    def profile(self, seconds: float) -> int:
        """Raise: stacks are sampled in the job's own processes."""
        raise UnsupportedError("a profile is taken by a job with --ui_port, on its own page")

    async def request(self, kind: str) -> dict[str, Any]:
        """Execute a request, and return the job's answer."""
        try:
            answer = await asyncio.to_thread(ask, self._disk, self._directory, RequestKind(kind), _ANSWER)
        except PenstockError as error:
            return {"is_done": False, "text": str(error), "epoch": None}
        return {"is_done": answer.is_done, "text": answer.text, "epoch": answer.epoch}


def serve_directory(directory: str, host: str = "127.0.0.1", port: int = 0) -> None:
    """Serve the page of a directory until the process is interrupted.

    Raises `PenstockError` if no run has logged its events there.
    """
    directory = directory.rstrip("/") or "/"
    disk = disk_of(directory)
    if not disk.exists(f"{directory}/{NAME}"):
        raise PenstockError(f"{directory}: no run has logged its events there; expected the --checkpoint_dir of a run")
    listening = listen(host, port)
    host, port = listening.getsockname()[:2]
    token = secrets.token_urlsafe(24)
    print(f"Page of {directory}: http://{host}:{port}/\nToken for its buttons: {token}", file=sys.stderr, flush=True)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(disk, directory, listening, token, host))


async def _serve(disk: Disk, directory: str, listening: Any, token: str, host: str) -> None:
    model = RunModel()
    model.limits = dict.fromkeys(("traffic", "hot_keys", "kept", "backlogs", "overdue"), _ON_ITS_OWN_PAGE)
    page = PageApp(model, DirectoryBackend(disk, directory, model), token, (host,))
    server = PageServer(page.app)
    following = asyncio.ensure_future(_follow(disk, directory, model, page))
    await server.run_on(listening)
    following.cancel()


async def _follow(disk: Disk, directory: str, model: RunModel, page: PageApp) -> None:
    """Take in the events that are logged, as long as the server runs."""
    seen = 0
    last: dict[str, Any] | None = None
    while True:
        events = await asyncio.to_thread(lambda: list(read_events(disk, directory)))
        if len(events) < seen or (last is not None and events[seen - 1] != last):
            # The log has begun anew; the events that it still has are known, up to the last one.
            seen = events.index(last) + 1 if last in events else 0
        for event in events[seen:]:
            model.apply(event)
        if events[seen:]:
            page.changed()
        seen, last = len(events), events[-1] if events else None
        await asyncio.sleep(_LOOK)
