"""WindowedSink: the files of an unbounded input, one for each window, pane and shard."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from ....sdk.elements.bundle import Bundle, expanded
from ....sdk.pvalue import PCollection, WriteOutput
from ....sdk.sink import SinkContext
from ....sdk.transaction_series import run_of
from ....transforms.assign_windows import WindowInto
from ....transforms.par_do.pardo import ParDo
from ....transforms.write import Stage
from ....triggers import AccumulationMode, AfterWatermark
from ....windowing import FixedWindows, GlobalWindows, IntervalWindow
from ..format import RecordWriter
from .commit_plan import Renaming
from .published_files import PublishGroup, run_of_pipeline, sharded
from .sharding import DEFAULT_SHARD_NAME_TEMPLATE, WINDOWED_SHARD_NAME_TEMPLATE, shard_name
from .sink import StagedFileSink
from .staged_file import StagedFile


def is_windowed(sink: StagedFileSink, pcoll: PCollection[Any]) -> bool:
    """Return whether an unbounded input is written by window: it has windows, or the sink gives it some.

    Changelogs take each change as it comes.
    """
    if sink.spec.accepts_retractions:
        return False
    return bool(sink.triggering_frequency) or pcoll.windowing.window_fn != GlobalWindows()


def written_by_window(pcoll: PCollection[Any], sink: StagedFileSink, label: str) -> WriteOutput[Any]:
    """Write an unbounded input into files for each window, and return their names."""
    windowed = WindowedSink(sink, sink.num_shards or 1, label)
    published = copy.copy(windowed)
    published.run = run_of_pipeline(pcoll)

    def grouped() -> PCollection[Any]:
        windows = pcoll
        if sink.triggering_frequency:
            windows = pcoll | "ApplyFixedWindows" >> WindowInto(
                FixedWindows(sink.triggering_frequency),
                trigger=AfterWatermark(),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
        return sharded(windows, windowed.shards)

    def publish() -> PCollection[Any]:
        publish = ParDo(PublishGroup(published, label)).with_output_types(str)
        files: PCollection[Any] = grouped() | "FinalizeWrite" >> publish
        return files

    groups = grouped()
    output = WriteOutput(pcoll.pipeline, pcoll.pipeline.in_place_of_this(publish), groups.windowing, str, False)
    _ = groups | "Stage" >> Stage(windowed, label)
    return output


class WindowedSink(StagedFileSink):
    """Files for each window, pane and shard, in the format of another sink.

    A file is published when its window is complete.  Its name has the window in it: `-W-SSSSS-of-NNNNN` is the default
    template.  In a stream the name has the run behind the prefix, so that no run replaces the files of another one.
    The number of a pane follows the window, except for the first pane's.  A shard without elements has no file.  With a
    limit of the records or bytes of a file, each pane has as many files as its elements need.

    Args:
      sink: the sink that opens files.
      shards: the number of shards of each window.
      label: of the writing transform, for errors of the arguments.
    """

    max_open_files = 20

    def __init__(self, sink: StagedFileSink, shards: int, label: str) -> None:
        template = sink.shard_name_template
        if template == DEFAULT_SHARD_NAME_TEMPLATE:
            template = WINDOWED_SHARD_NAME_TEMPLATE
        super().__init__(
            sink.file_path_prefix,
            file_name_suffix=sink.file_name_suffix,
            shard_name_template=template,
            sharded=True,
            max_records_per_shard=sink.max_records_per_shard,
            max_bytes_per_shard=sink.max_bytes_per_shard,
            skip_if_empty=True,
            transform=label,
        )
        self.num_shards = 0
        self.sink = copy.copy(sink)
        self.shards = shards

    def parts_of(self, bundle: Bundle) -> Iterable[tuple[int | None, Any, Iterable[Any]]]:
        n = len(bundle)
        for (shard, values), windows, pane in zip(
            bundle.values, expanded(bundle.windows, n), expanded(bundle.panes, n)
        ):
            for window in windows:
                yield shard, (window, pane.index), values

    @contextmanager
    def open_file(self, path: str, group: Any = None) -> Iterator[RecordWriter]:
        with self.sink.open_file(path) as writer:
            self.counted = self.sink.counted
            yield writer

    def plan(self, context: SinkContext, files: Sequence[StagedFile]) -> list[Renaming]:
        if self.max_records_per_shard is None and self.max_bytes_per_shard is None:
            return [
                Renaming(file.name, self._final(context, file, file.shard or 0, self.shards), file.size)
                for file in files
            ]
        # The files of a pane are staged by one writer, in order.
        shards = Counter(file.group for file in files)
        numbers = {group: count() for group in shards}
        return [
            Renaming(file.name, self._final(context, file, next(numbers[file.group]), shards[file.group]), file.size)
            for file in files
        ]

    def first_path(self, shards: int) -> str:
        name = shard_name(self.shard_name_template, 0, shards, IntervalWindow(0, 1))
        return f"{self.file_path_prefix}{name}{self.file_name_suffix}"

    def _final(self, context: SinkContext, file: StagedFile, shard: int, shards: int) -> str:
        window, pane = file.group
        run = self.run or (run_of(context.transaction) if self.name_by_transaction else "")
        name = shard_name(self.shard_name_template, shard, shards, window, pane)
        return f"{self.file_path_prefix}{run and f'-{run}'}{name}{self.file_name_suffix}"
