"""PublishedFiles: files that are published by a part of the pipeline, which then tells their names.

The files of a write without consumers are published at the end of the run, together with those of all other writes. A
transform that is applied to a write gets names of files that exist, so the write publishes them before: when its input
is written, whether or not the rest of the pipeline succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias
from uuid import uuid4

from ....sdk.claims import Claim, Claimant
from ....sdk.coders.mixed_hash import bucket, pickled_hash
from ....sdk.dofn.dofn import DoFn
from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.errors import UnsupportedError
from ....sdk.options import StreamingOptions
from ....sdk.ptransform import PTransform
from ....sdk.pvalue import PCollection, WriteOutput
from ....sdk.side_inputs import AsIter, AsSingleton
from ....sdk.sink import SinkContext
from ....sdk.transaction_series import digest_of_sink
from ....sdk.windowing_strategy import DEFAULT_WINDOWING
from ....transforms.assign_windows import WindowInto
from ....transforms.create import Create
from ....transforms.group_by_key import GroupByKey
from ....transforms.par_do.map_and_filter import FlatMap, Map
from ....transforms.par_do.pardo import ParDo
from ....triggers import AccumulationMode
from ....windowing import GlobalWindows
from ..filesystem import absolute_path, path_string
from .sink import StagedFileSink


def published_by_demand(pcoll: PCollection[Any], publish: PublishedFiles) -> WriteOutput[Any]:
    """Return the output of a write, of which `publish` takes the place once a transform is applied to it."""
    windowing = DEFAULT_WINDOWING if pcoll.is_bounded else pcoll.windowing
    build = pcoll.pipeline.in_place_of_this(lambda: pcoll | "Publish" >> publish)
    return WriteOutput(pcoll.pipeline, build, windowing, publish.element_type, pcoll.is_bounded)


def sharded(pcoll: PCollection[Any], shards: int) -> PCollection[Any]:
    """Return the elements grouped into shards; those of a bounded input regardless of their windows."""
    if pcoll.is_bounded:
        pcoll = pcoll | WindowInto(GlobalWindows())
    groups: PCollection[Any] = pcoll | "Shard" >> ParDo(AssignShards(shards)) | grouping_of(pcoll)
    return groups


def grouping_of(pcoll: PCollection[Any]) -> GroupByKey:
    """Return the grouping of elements into files.

    A file can't be retracted.  If the input has no retractions, each element is written with one pane instead.
    """
    grouping = GroupByKey()
    if pcoll.windowing.accumulation_mode is AccumulationMode.RETRACTING and not pcoll.retracted_by:
        grouping.accumulation_mode = AccumulationMode.DISCARDING
    return grouping


class PublishedFiles(PTransform):
    """Elements into files, which are published when all of them are written.  Returns their paths.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     names = p | beam.Create(["to be"]) | beam.io.WriteToText(directory / "out")
    ...     _ = names | beam.io.ReadAllFromText() | beam.Map(print)
    to be
    """

    # The type of what is told of a file.
    element_type: Any = str

    def __init__(self, sink: StagedFileSink, label: str) -> None:
        super().__init__()
        self.sink = sink
        self.sink_label = label

    def grouped(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        """Return the elements in groups, each of which is written by one worker."""
        if self.sink.sharded:
            return pcoll
        if self.sink.num_shards:
            self.sink.sharded = True
            return sharded(pcoll, self.sink.num_shards)
        return sharded(pcoll, shards_of(pcoll))

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if not pcoll.is_bounded:
            raise UnsupportedError(
                f"{self.sink_label}: its files have no names before the checkpoint that publishes them, so no "
                "transform can be applied to the write; give triggering_frequency, or windows, for files by window"
            )
        once = pcoll.pipeline | Create([None])
        transaction = AsSingleton(once | "InitializeWrite" >> Map(_begin, self.sink, self.sink_label))
        staged = self.grouped(pcoll) | "WriteBundles" >> ParDo(_StageGroups(self.sink, self.sink_label), transaction)
        # A main input in the global window sees only that window of a side input.
        staged = staged | "Staged" >> WindowInto(GlobalWindows())
        publish = FlatMap(_publish, self.sink, self.sink_label, transaction, AsIter(staged)).with_output_types(
            self.element_type
        )
        published = once | "FinalizeWrite" >> publish
        files: PCollection[Any] = published
        return files


def run_of_pipeline(pcoll: PCollection[Any]) -> str:
    """Return the run in the names of files that a stream publishes one by one, whenever their window is complete.

    A file that is published again after a failure has the same name.  So the run is known by its checkpoints: a start
    with the same `--checkpoint_dir` continues it.  Scripts have no such runs, so "" is returned for them.
    """
    if pcoll.is_bounded or pcoll.pipeline.outline().has_script:
        return ""
    directory = pcoll.pipeline.options.view_as(StreamingOptions).checkpoint_dir
    if directory is None:
        return uuid4().hex[:16]
    return digest_of_sink(absolute_path(path_string(directory)))


def shards_of(pcoll: PCollection[Any]) -> int:
    """Return the number of groups for as many workers as the pipeline has."""
    return max(1, pcoll.pipeline.options.view_as(StreamingOptions).parallelism or 1)


# A `StagedFileSink`, or another sink that returns what it publishes, as that of load jobs does.
_Publisher: TypeAlias = Any


def _begin(_: None, sink: _Publisher, label: str) -> str:
    transaction = uuid4().hex
    sink.prepare(SinkContext(label, transaction))
    return transaction


def _publish(_: None, sink: _Publisher, label: str, transaction: str, tokens: Iterable[Any]) -> list[Any]:
    staged, context = list(tokens), SinkContext(label, transaction)
    sink.precommit({context: staged})
    published: list[Any] = sink.publish(context, staged)
    return published


class PublishGroup(DoFn, Claimant):
    """Publishes the files of a group when it is written, each under a name that depends on its window and shard."""

    def __init__(self, sink: StagedFileSink, label: str) -> None:
        self._sink = sink
        self._label = label

    def claims(self) -> Sequence[Claim]:
        return self._sink.claims()

    def process(self, element: Any, window: Any = DoFn.WindowParam, pane: Any = DoFn.PaneInfoParam) -> Iterable[Any]:
        transaction = _begin(None, self._sink, self._label)
        token = _staged(self._sink, self._label, transaction, element, window, pane)
        return _publish(None, self._sink, self._label, transaction, [token])


class _StageGroups(DoFn, Claimant):
    def __init__(self, sink: StagedFileSink, label: str) -> None:
        self._sink = sink
        self._label = label

    def claims(self) -> Sequence[Claim]:
        return self._sink.claims()

    def process(
        self, element: Any, transaction: str, window: Any = DoFn.WindowParam, pane: Any = DoFn.PaneInfoParam
    ) -> Iterator[Any]:
        yield _staged(self._sink, self._label, transaction, element, window, pane)


def _staged(sink: StagedFileSink, label: str, transaction: str, element: Any, window: Any, pane: Any) -> Any:
    writer = sink.open_writer(SinkContext(label, transaction, unit=uuid4().hex))
    try:
        if sink.sharded:
            writer.write(Bundle([element], windows=(window,), panes=pane))
        else:
            values = iter(element[1])
            while chunk := list(islice(values, BUNDLE_SIZE)):
                writer.write(Bundle(chunk))
        return writer.stage()
    except BaseException:
        writer.discard()
        raise


class AssignShards(DoFn):
    """Assigns elements to the shards in turn, however they are cut into bundles.

    The first shard depends on the first element: the elements of many small tasks are spread evenly, and those of a
    recomputed task are assigned to the same shards.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._next: int | None = None

    def setup(self) -> None:
        self._next = None

    def process(self, element: Any) -> Iterable[tuple[int, Any]]:
        shard = self._first(element) if self._next is None else self._next
        self._next = (shard + 1) % self._shards
        return ((shard, element),)

    def _first(self, element: Any) -> int:
        return 0 if self._shards == 1 else bucket(pickled_hash(element), self._shards)
