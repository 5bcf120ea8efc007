"""WriteToFiles: elements into files of their own destinations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote

from ....sdk.coders.primitive import ToBytesCoder
from ....sdk.dofn.dofn import DoFn
from ....sdk.elements.bundle import Bundle, expanded
from ....sdk.errors import SinkError
from ....sdk.options.value_provider import ValueProvider, value_of
from ....sdk.ptransform import PTransform
from ....sdk.pvalue import PCollection
from ....sdk.sink import SinkContext
from ....transforms.par_do.pardo import ParDo
from ....transforms.write import Stage
from ....windowing import GlobalWindow, GlobalWindows
from ..filesystem import AnyPath, join_path, path_string, split_path
from ..format import RecordWriter
from .commit_plan import Renaming
from .published_files import (
    AssignShards,
    PublishedFiles,
    PublishGroup,
    grouping_of,
    published_by_demand,
    run_of_pipeline,
    shards_of,
)
from .sharding import FileNaming, default_file_naming, destination_prefix_naming, path_inside
from .sink import StagedFileSink
from .staged_file import StagedFile

__all__ = [
    "FileResult",
    "RecordSink",
    "TextSink",
    "WriteToFiles",
]


class RecordSink(Protocol):
    """Writer of one file of one destination (Beam's `fileio.FileSink`)."""

    def open(self, fh: BinaryIO) -> None:
        """Begin a file."""

    def write(self, record: Any) -> None:
        """Write one element."""

    def flush(self) -> None:
        """Write buffered elements and the end of the file."""


class TextSink:
    """A line for each element: bytes unchanged, other values by `str`."""

    # Programs for Beam have subclasses with another `__init__`, whose `write` writes to `_fh`.
    _coder: Any = ToBytesCoder()

    def __init__(self, coder: Any = None) -> None:
        if coder is not None:
            self._coder = coder

    def open(self, fh: BinaryIO) -> None:
        self._fh = fh

    def write(self, record: Any) -> None:
        self._fh.write(self._coder.encode(record) + b"\n")

    def flush(self) -> None:
        self._fh.flush()


class FileResult(NamedTuple):
    """A published file: what a transform that is applied to `WriteToFiles` gets.  The name is relative to the path."""

    file_name: str
    shard_index: int
    total_shards: int
    window: Any
    pane: Any
    destination: Any


class WriteToFiles(PTransform):
    """Elements into files whose names depend on destination, window, pane and shard.

    Args:
      path: the directory.  No file is made outside it.
      file_naming: see `default_file_naming` and its neighbours.  A name may have subdirectories in it, as in
        '2026/01/out.txt'.  A name that leads out of the directory, or that readers would skip, is quoted as in a URL.
      destination: a function from an element to its destination; None for a single destination.
      sink: a `RecordSink`, a class of them, or a function from a destination to one;
        None for `TextSink`.
      shards: the number of files for each destination and window; None for one for each worker that has elements, which
        is faster.
      output_fn: Beam's, and unused there, too.
      max_writers_per_bundle: the number of files that a worker has open at once.
      temp_directory: Beam's, and unused.  Files are staged beside their destination, where a rename is atomic.

    All files appear at once, when the pipeline has succeeded: see `FileSink`.  A transform that is applied to the write
    gets a `FileResult` for each file, which is published before: see `PublishedFiles`.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> naming = beam.io.fileio.destination_prefix_naming(".txt")
    >>> with beam.Pipeline() as p:
    ...     words = p | beam.Create(["ant", "bee", "bat"])
    ...     _ = words | beam.io.fileio.WriteToFiles(directory, naming, destination=lambda word: word[0])
    >>> [(path.name, path.read_text().split()) for path in sorted(directory.iterdir())]
    [('a-00000-of-00001.txt', ['ant']), ('b-00000-of-00001.txt', ['bee', 'bat'])]
    """

    def __init__(
        self,
        path: AnyPath,
        file_naming: FileNaming | None = None,
        destination: Callable[[Any], Any] | str | ValueProvider | None = None,
        temp_directory: AnyPath | None = None,
        sink: Any = None,
        shards: int | None = None,
        output_fn: Any = None,
        max_writers_per_bundle: int = 20,
    ) -> None:
        super().__init__()
        if shards is not None and shards < 1:
            raise ValueError(f"WriteToFiles: shards must be 1 or more, got {shards}")
        if file_naming is None:
            file_naming = default_file_naming("output") if destination is None else destination_prefix_naming()
        self.shards = shards
        self.sink = DestinationSink(
            path_string(path),
            file_naming,
            destination if callable(destination) else _Constantly(value_of(destination)),
            _sink_function(sink),
            shards is not None,
            max_writers_per_bundle,
        )

    def expand(self, pcoll: PCollection[Any]) -> PCollection[FileResult]:
        sink, label = copy.copy(self.sink), pcoll.pipeline.full_label
        output = published_by_demand(pcoll, _PublishedDestinations(copy.copy(sink), label, self.shards))
        shards = self.shards
        if shards is None and not pcoll.is_bounded and pcoll.windowing.window_fn != GlobalWindows():
            # As of `WindowedSink`: a file appears once its window is complete.
            shards = 1
        if shards is not None:
            sink.sharded = True
            pcoll = sink.grouped(pcoll, shards)
        sink.name_by_transaction = not pcoll.is_bounded and shards is None
        _ = pcoll | Stage(sink, label)
        return output


class _PublishedDestinations(PublishedFiles):
    element_type = FileResult

    def __init__(self, sink: DestinationSink, label: str, shards: int | None) -> None:
        super().__init__(sink, label)
        self._sink = sink
        self._shards = shards

    def grouped(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        self._sink.sharded = True
        return self._sink.grouped(pcoll, self._shards or shards_of(pcoll))

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if pcoll.is_bounded:
            return super().expand(pcoll)
        self._sink.run = run_of_pipeline(pcoll)
        files: PCollection[Any] = self.grouped(pcoll) | "FinalizeWrite" >> ParDo(
            PublishGroup(self._sink, self.sink_label)
        )
        return files


# The destination, window and pane of a file's elements.
Group: TypeAlias = tuple[Any, Any, Any]


class DestinationSink(StagedFileSink):
    """Files for each destination, window and pane, named by a function."""

    # Of an unbounded input: the number of files of each destination, window and pane.
    shards: int | None = None

    def __init__(
        self,
        directory: str,
        file_naming: FileNaming,
        destination: Callable[[Any], Any],
        record_sink: Callable[[Any], RecordSink],
        sharded: bool,
        max_open_files: int,
    ) -> None:
        super().__init__(join_path(directory, "files"), sharded=sharded, skip_if_empty=True, transform="WriteToFiles")
        self.directory = split_path(self.file_path_prefix)[0]
        self.file_naming = file_naming
        self.destination = destination
        self.record_sink = record_sink
        self.max_open_files = max(1, max_open_files)

    def parts_of(self, bundle: Bundle) -> Iterable[tuple[int | None, Any, Iterable[Any]]]:
        n = len(bundle)
        rows = zip(bundle.values, expanded(bundle.windows, n), expanded(bundle.panes, n))
        if self.sharded:
            for ((destination, shard), values), windows, pane in rows:
                for window in windows:
                    yield shard, (destination, window, pane), values
            return
        parts: dict[Group, list[Any]] = {}
        for value, windows, pane in rows:
            destination = self.destination(value)
            for window in windows:
                parts.setdefault((destination, window, pane), []).append(value)
        for group, values in parts.items():
            yield None, group, values

    def grouped(self, pcoll: PCollection[Any], shards: int) -> PCollection[Any]:
        """Return the elements grouped by destination and shard."""
        if not pcoll.is_bounded:
            self.shards = shards
        assign = _AssignDestinationAndShard(self.destination, shards)
        groups: PCollection[Any] = pcoll | "Shard" >> ParDo(assign) | grouping_of(pcoll)
        return groups

    def check_group(self, context: SinkContext, group: Any) -> None:
        destination, window, pane = group
        self._final(context, window, pane, 0, 1, destination)

    @contextmanager
    def open_file(self, path: str, group: Any = None) -> Iterator[RecordWriter]:
        destination, _window, _pane = group
        sink = self.record_sink(destination)
        with self.file_system.create(path) as file:
            sink.open(file)
            yield _SinkAsWriter(sink)
            sink.flush()

    def plan(self, context: SinkContext, files: Sequence[StagedFile]) -> list[Renaming]:
        groups: dict[Group, list[StagedFile]] = {}
        for file in files:
            groups.setdefault(file.group, []).append(file)
        plan: dict[str, Renaming] = {}
        for (destination, window, pane), members in groups.items():
            for i, n, file in self._numbers(members):
                final = self._final(context, window, pane, i, n, destination)
                if final in plan:
                    name = final[len(join_path(self.directory, "")) :]
                    raise SinkError(
                        f"{context.label}: file_naming gives {name!r} to more than one file; "
                        "make the destination, the window, the pane and the shard part of the name"
                    )
                plan[final] = Renaming(file.name, final, file.size)
        return list(plan.values())

    def _numbers(self, members: Sequence[StagedFile]) -> Iterator[tuple[int, int, StagedFile]]:
        """Yield a group's files with their numbers and the number of files."""
        for i, file in enumerate(sorted(members, key=lambda file: file.shard or 0)):
            yield (i, len(members), file) if self.shards is None else (file.shard or 0, self.shards, file)

    def told(self, plan: Sequence[Renaming], files: Sequence[StagedFile]) -> list[Any]:
        groups: dict[Group, list[StagedFile]] = {}
        for file in files:
            groups.setdefault(file.group, []).append(file)
        numbers = {f.name: (i, n) for members in groups.values() for i, n, f in self._numbers(members)}
        group_of = {file.name: file.group for file in files}
        told = []
        for entry in plan:
            destination, window, pane = group_of[entry.staged]
            name = entry.final[len(join_path(self.directory, "")) :]
            told.append(FileResult(name, *numbers[entry.staged], window, pane, destination))
        return told

    def may_publish(self, final: str) -> bool:
        top = join_path(self.directory, "")
        below = final[len(top) :]
        return final.startswith(top) and below == path_inside(below)

    def first_path(self, shards: int) -> str | None:
        if not isinstance(self.destination, _Constantly):
            return None
        try:
            name = self.file_naming(GlobalWindow(), None, 0, shards, None, self.destination(None))
        except Exception:
            # The function is for other windows, or another number of files.
            return None
        return join_path(self.directory, path_inside(name)) if isinstance(name, str) and name else None

    def _final(self, context: SinkContext, window: Any, pane: Any, shard: int, shards: int, destination: Any) -> str:
        """Return the path that a file is published under.  Raises `SinkError` for a name that can't be used."""
        given = self.file_naming(window, pane, shard, shards, None, destination)
        if not isinstance(given, str) or not given:
            raise SinkError(
                f"{context.label}: file_naming gives {given!r} for the destination {destination!r}, expected a name"
            )
        name = path_inside(given)
        if run := self.run or (quote(context.transaction, safe="") if self.name_by_transaction else ""):
            name = f"{run}-{name}"
        final = join_path(self.directory, name)
        with self.naming_the_output(
            context, f"can't have a file {name!r}, which file_naming gives for {destination!r}"
        ):
            self.file_system.check_names(self.directory, name)
        above = split_path(final)[0]
        if above != self.directory:
            self._check_that_it_is_inside(context, above, given)
        return final

    def _check_that_it_is_inside(self, context: SinkContext, path: str, given: str) -> None:
        top, found = self.file_system.real_path(self.directory), self.file_system.real_path(path)
        if found != top and not found.startswith(join_path(top, "")):
            raise SinkError(
                f"{context.label}: file_naming gives {given!r}, but {path!r} leads out of {self.directory!r} by a "
                f"symbolic link, to {found!r}. Remove the link, or write to where it leads"
            )


class _SinkAsWriter(RecordWriter):
    def __init__(self, sink: RecordSink) -> None:
        self._write = sink.write

    def write(self, values: list[Any]) -> None:
        for value in values:
            self._write(value)

    def close(self) -> None:
        pass


class _Constantly:
    """A function that always returns the same value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self, _argument: Any) -> Any:
        return self._value


class _CopyOf:
    """A function that returns a new copy of a sink for every file."""

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink

    def __call__(self, _destination: Any) -> RecordSink:
        return copy.deepcopy(self._sink)


class _NewOf:
    """A function that returns a new sink of a class for every file."""

    def __init__(self, kind: Callable[[], RecordSink]) -> None:
        self._kind = kind

    def __call__(self, _destination: Any) -> RecordSink:
        return self._kind()


def _sink_function(sink: Any) -> Callable[[Any], RecordSink]:
    if sink is None:
        return _NewOf(TextSink)
    if isinstance(sink, type):
        return _NewOf(sink)
    if hasattr(sink, "open") and hasattr(sink, "flush"):
        return _CopyOf(sink)
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    raise TypeError(f"WriteToFiles: sink must be a RecordSink, a class of them, or a function to one; got {sink!r}")


class _AssignDestinationAndShard(DoFn):
    """Each element under its destination and one of the shards in turn (see `write`)."""

    def __init__(self, destination: Callable[[Any], Any], shards: int) -> None:
        self._destination = destination
        self._shards = AssignShards(shards)

    def setup(self) -> None:
        self._shards.setup()

    def process(self, element: Any) -> Iterable[Any]:
        for shard, value in self._shards.process(element):
            yield (self._destination(value), shard), value
