"""Query 10: all events into files, by shard and window, and an index of the files of each window.

The name of a file is that of its pane, so a pane that is processed again after a failure replaces its file.  The index
lists the files that count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import penstock as beam
from nexmark.events import Bid, Event, LogFile, LogIndex, typed
from nexmark.settings import Settings
from penstock.triggers import (
    AccumulationMode,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    OrFinally,
    Repeatedly,
)

LATE_BATCHING_SECONDS = 10
ALLOWED_LATENESS = 24 * 60 * 60


class LogToFiles(beam.PTransform):
    """Query 10: writes files of at most `max_log_events` events.

    A file is written when it is full, or when its window is complete.  Late events would be written every ten seconds.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    def expand(self, events: Any) -> Any:
        shards = self.settings.log_shards
        return self.of_sharded(events | "Shard" >> beam.Map(lambda event: (shard_of(event, shards), event)))

    def of_sharded(self, events: Any) -> Any:
        """Return the results, of pairs of a shard and an event."""
        settings = self.settings
        full = AfterCount(settings.max_log_events)
        late = AfterAny(full, AfterProcessingTime(LATE_BATCHING_SECONDS))
        windows = beam.window.FixedWindows(settings.window_size)
        return (
            events
            | "WindowEvents"
            >> beam.WindowInto(
                windows,
                trigger=AfterEach(OrFinally(Repeatedly(full), AfterWatermark()), Repeatedly(late)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=ALLOWED_LATENESS,
            )
            | "GroupEvents" >> beam.GroupByKey()
            | "WriteEvents" >> beam.ParDo(WriteLog(settings.log_directory))
            | "WindowFiles"
            >> beam.WindowInto(
                windows,
                trigger=beam.trigger.DefaultTrigger(),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=ALLOWED_LATENESS,
            )
            | "ForIndex" >> beam.WithKeys(None)
            | "GroupFiles" >> beam.GroupByKey()
            | "WriteIndex" >> beam.ParDo(WriteIndex(settings.log_directory))
        )


def shard_of(event: Event, shards: int) -> int:
    """Return the shard of an event, which is the same in all processes."""
    return (31 * event.auction + event.bidder if isinstance(event, Bid) else event.id) % shards


class WriteLog(beam.DoFn):
    """Writes each pane as lines of JSON, and outputs the `LogFile`."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def setup(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    def process(
        self,
        element: tuple[int, Iterable[Event]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterable[LogFile]:
        shard, events = element
        path = self.directory / f"LOG-{_name(window)}-{shard:03d}-{pane.index:03d}-{pane.timing}"
        lines = [json.dumps(typed(event)) for event in events]
        write_atomically(path, lines)
        yield LogFile(str(path), shard, len(lines))


class WriteIndex(beam.DoFn):
    """Writes the names of the files of each window, and outputs the `LogIndex`."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)

    def process(
        self,
        element: tuple[None, Iterable[LogFile]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterable[LogIndex]:
        files = tuple(sorted(element[1]))
        path = self.directory / f"INDEX-{_name(window)}-{pane.index:03d}"
        write_atomically(path, [file.path for file in files])
        yield LogIndex(str(path), files)


def _name(window: Any) -> str:
    return f"{window.end.to_utc_datetime():%Y%m%dT%H%M%S}"


def write_atomically(path: Path, lines: Iterable[str]) -> None:
    """Write lines under another name first, so that the file is there as a whole or not at all."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    unfinished.replace(path)
