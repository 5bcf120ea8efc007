"""Write: a transform that writes into a sink, in the sink's number of shards; and the base class `WriteFiles`."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ...sdk.coders.mixed_hash import pickled_hash, place
from ...sdk.dofn.dofn import DoFn
from ...sdk.pvalue import PCollection, PDone
from ...transforms.assign_windows import WindowInto
from ...transforms.group_by_key import GroupByKey
from ...transforms.pardo import ParDo
from ...transforms.write import Write as WriteAsIs
from ...windowing import GlobalWindows
from ..write_into import WriteInto
from .sink import FileSink


class Write(WriteAsIs):
    """Elements into a sink, which publishes them once the whole pipeline has succeeded.

    A `FileSink` with `num_shards` gets its elements grouped into shards.  Without, it writes a file for each worker,
    which needs no grouping and is faster.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> from penstock.io.files.sink import FileSink
    >>> from penstock.io.files.text import TextFormat
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1, 2, 3]) | beam.io.Write(FileSink(directory / "out", TextFormat(), num_shards=2))
    >>> sorted(path.name for path in directory.iterdir())
    ['out-00000-of-00002', 'out-00001-of-00002']
    """

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        if not isinstance(self.sink, FileSink):
            return super().expand(pcoll)
        sink = copy.copy(self.sink)
        if not sink.transform_is_given:
            sink.transform = pcoll.pipeline.full_label
        if not pcoll.is_bounded:
            sink = sink.for_many_transactions()
        if sink.num_shards and not sink.sharded:
            sink.sharded = True
            if pcoll.is_bounded:
                pcoll = pcoll | WindowInto(GlobalWindows())
            pcoll = pcoll | "Shard" >> ParDo(AssignShards(sink.num_shards)) | GroupByKey()
        done: PDone = pcoll | "Stage" >> WriteAsIs(sink)
        return done


class WriteFiles(WriteInto):
    """Base class of the transforms that write files of one format."""

    def expand(self, pcoll: PCollection[Any]) -> PDone:
        sink = self.sink_for(pcoll)
        sink.transform_is_given = True
        done: PDone = pcoll | Write(sink)
        return done


class AssignShards(DoFn):
    """Assigns elements to the shards in turn.

    The first shard depends on the bundle's first element: many small bundles are spread evenly, and a recomputed bundle
    is assigned to the same shards.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._next: int | None = None

    def start_bundle(self) -> None:
        self._next = None

    def process(self, element: Any) -> Iterable[tuple[int, Any]]:
        shard = self._first(element) if self._next is None else self._next
        self._next = (shard + 1) % self._shards
        return ((shard, element),)

    def _first(self, element: Any) -> int:
        return 0 if self._shards == 1 else place(pickled_hash(element), self._shards)
