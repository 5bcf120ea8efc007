"""What watches a run: its page, the endpoints of its metrics and its health, and its progress on the terminal."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, closing
from types import TracebackType
from typing import Any

from ....sdk.options import PipelineOptions, StreamingOptions
from .health import MonitoredRun
from .health_port import HealthPort


class Observers(AbstractContextManager["Observers"]):
    """The page, the endpoints and the progress of a run, as far as the options ask for them, until the block ends.

    Args:
      run: the run.
      progress: shows the progress on the terminal.
      is_asked_by_files: True if the run takes requests through its directory.

    Attributes:
      metrics_url: the URL of the metrics, or None.
      health_url: the URL of the health, without a path, or None.
      page: the page.

    Raises `OptionsError` for a port that is not available, and `MissingExtraError` for a package that is missing.
    """

    def __init__(
        self,
        run: MonitoredRun,
        progress: AbstractContextManager[Any],
        options: PipelineOptions,
        is_asked_by_files: bool = False,
    ) -> None:
        streaming = options.view_as(StreamingOptions)
        self.metrics_url: str | None = None
        with ExitStack() as opened:
            if streaming.metrics_port is not None:
                # Imported here, because it takes long.
                from .prometheus import MetricsPort

                port, host = streaming.metrics_port, streaming.metrics_host
                metrics = opened.enter_context(closing(MetricsPort(run.current_status, run.tasks, port, host)))
                self.metrics_url = metrics.url
            self.health_url = opened.enter_context(closing(HealthPort(run, streaming))).url
            self.page = run.open(options)
            self._opened = opened.pop_all()
        self._served = run.served(self.page, is_asked_by_files)
        self._progress = progress

    def __enter__(self) -> Observers:
        self._opened.enter_context(self._served)
        self._opened.enter_context(self._progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, traceback)
