"""A run as the subject of a page: its status as data, what the page wants observed, and its requests.

The same for all runners: each says what its status is, how its workers are observed, and which requests it takes.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ....sdk.options import PipelineOptions
from ....sdk.runner import PipelineState
from ..log_tail import LogTail
from ..streaming.observation import Observe, Observed
from .event_log import Events, described_error
from .feed import PageFeed
from .observer import Observation


class RunPage(ABC):
    """A run as a page shows it.

    Args:
      graph: the graph as data.
      requests: by kind, the functions that execute the run's requests, which need no answer.
      limits: by document or field of a status, why the page can't show it.
      process: the name of this process in the logs of the page.

    Attributes:
      events: the events of the run.
      observation: what the page wants observed, and what the workers have observed.
    """

    def __init__(
        self,
        graph: Mapping[str, Any],
        requests: Mapping[str, Callable[[], Any]],
        events: Events,
        limits: Mapping[str, str],
        process: str,
        observation: Observation | None = None,
    ) -> None:
        self.events = events
        self.limits = limits
        self.observation = Observation() if observation is None else observation
        self._graph = graph
        self._executes = requests
        self._process = process
        self._tail = LogTail()
        self._state = PipelineState.RUNNING
        self.wanted = Observe()

    @property
    def requests(self) -> tuple[str, ...]:
        """The kinds of requests that the run takes."""
        return tuple(self._executes)

    def graph(self) -> Mapping[str, Any]:
        """Return the graph as data."""
        return self._graph

    @property
    def state(self) -> str:
        """One of `PipelineState`: that of the block in which the page is served, unless the run knows better."""
        return self._state

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Return the present status as data (docs/ui.md), and add what was observed since the last as events."""

    def _add(self, news: list[tuple[int, Observed]]) -> None:
        logs = [[self._process, *line] for line in self._tail.taken()]
        inputs: list[dict[str, Any]] = []
        panes: list[dict[str, Any]] = []
        for number, each in news:
            logs += [[f"worker {number}", *line] for line in each.logs]
            inputs += [drawn._asdict() for drawn in each.inputs]
            panes += [drawn._asdict() for drawn in each.panes]
            if each.profile is not None:
                self.events.add("profile", number=each.profile[0], worker=number, stacks=each.profile[1])
        if logs:
            self.events.add("logs", lines=logs)
        if inputs or panes:
            self.events.add("panes", step=self.wanted.step, inputs=inputs, panes=panes)

    def observe(self, is_open: bool, step: str | None, key: str | None) -> None:
        """Observe what an open page shows."""
        draws = "panes" not in self.limits
        self.want(is_open=is_open, step=step if draws else None, key=key if draws else None)

    def profile(self, number: int, seconds: float) -> None:
        """Sample the stacks of the workers."""
        self.want(profile=number, seconds=seconds)

    def want(self, **changes: Any) -> None:
        """Have something else observed."""
        self.wanted = self.wanted._replace(**changes)
        self.observation.want(self.wanted)

    def request(self, kind: str, number: int) -> None:
        """Execute a request, and answer with an event."""
        self._executes[kind]()
        self.answer(number, True, f"requested: {kind}")

    def answer(self, number: int, is_done: bool, text: str, epoch: int | None = None) -> None:
        """Answer a request."""
        self.events.add("answer", number=number, is_done=is_done, text=text, epoch=epoch)

    def failed(self, error: BaseException) -> None:
        """Record the error that ends the run."""
        self.events.add("failed", error=described_error(error))

    def open(self, options: PipelineOptions) -> PageFeed:
        """Open the page, if the options ask for it.  Raises the errors of `PageFeed`."""
        feed = PageFeed(self, options)
        if feed.url is not None:
            self._tail.install()
            self.want()
        return feed

    @contextmanager
    def served(self, feed: PageFeed, is_asked_by_files: bool = False) -> Iterator[None]:
        """Serve the page in the `with` block, and record the start and the end of the run.

        Args:
          is_asked_by_files: True if the run takes requests through its directory.
        """
        about: dict[str, Any] = {} if is_asked_by_files else {"is_asked_by_files": False}
        graph = self._graph if self.events.is_logged else None
        self.events.add("started", graph=graph, pid=os.getpid(), host=socket.gethostname(), **about)
        feed.start()
        try:
            yield
            self._state = PipelineState.DONE
        except BaseException as error:
            self._state = PipelineState.FAILED
            self.failed(error)
            raise
        finally:
            self.events.add("ended", state=self.state)
            self.close(feed)

    def close(self, feed: PageFeed) -> None:
        """Close the page, whether or not it was served."""
        feed.close()
        self._tail.remove()
