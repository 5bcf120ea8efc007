"""FileSink: files in a number of shards; and `WriteFiles`, the base class of the transforms that write them."""

from __future__ import annotations

import copy
from typing import Any

from ...sdk.pvalue import PCollection, PDone
from ...sdk.sink import ComposedSink
from ...sdk.type_variables import A
from ...transforms.write import Stage, WriteAs
from ..sinks.write_into import WriteInto
from .sinks.published_files import PublishedFiles, published_by_demand, sharded
from .sinks.sink import StagedFileSink
from .sinks.windowed_sink import is_windowed, written_by_window


class FileSink(StagedFileSink, ComposedSink):
    """Files of one format.  The arguments are those of `StagedFileSink`.

    With `num_shards` the elements are grouped into shards.  Without, each worker writes a file, which needs no grouping
    and is faster.  An unbounded input in windows, or with `triggering_frequency`, is written into files for each
    window; see `WindowedSink`.  `PublishedFiles` tells what a transform applied to the write gets.

    >>> import penstock as beam
    >>> import pathlib, tempfile
    >>> from penstock.io.files.text import TextFormat
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1, 2, 3]) | beam.io.Write(FileSink(directory / "out", TextFormat(), num_shards=2))
    >>> sorted(path.name for path in directory.iterdir())
    ['out-00000-of-00002', 'out-00001-of-00002']
    """

    def write(self, pcoll: PCollection[Any], label: str) -> PDone | PCollection[Any]:
        sink = copy.copy(self)
        is_unbounded = not pcoll.is_bounded
        if is_unbounded and is_windowed(sink, pcoll):
            return written_by_window(pcoll, sink, label)
        output = published_by_demand(pcoll, PublishedFiles(copy.copy(sink), label))
        if sink.num_shards and not sink.sharded:
            sink.sharded = True
            pcoll = sharded(pcoll, sink.num_shards)
        _ = pcoll | "Stage" >> Stage(sink, label, many_transactions=is_unbounded)
        return output


class WriteFiles(WriteInto[A]):
    """Base class of the transforms that write files of one format."""

    def expand(self, pcoll: PCollection[Any]) -> Any:
        return pcoll | WriteAs(self.sink_for(pcoll), pcoll.pipeline.full_label)
