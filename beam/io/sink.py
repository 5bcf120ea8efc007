"""Sink as Beam defines it: writers write elements, and a last step publishes their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from ...io.files.sinks.published_files import sharded
from ...sdk.adapters import convert_sinks
from ...sdk.dofn.dofn import DoFn
from ...sdk.elements.bundle import Bundle
from ...sdk.elements.element_wrappers import WindowedValue
from ...sdk.errors import UnsupportedError
from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PCollection, WriteOutput
from ...sdk.side_inputs import AsIter, AsSingleton
from ...sdk.sink import ComposedSink, SinkContext, SinkWriter
from ...sdk.sink import Sink as OwnSink
from ...sdk.windowing_strategy import DEFAULT_WINDOWING
from ...transforms.assign_windows import WindowInto
from ...transforms.create import Create
from ...transforms.flatten import Flatten
from ...transforms.par_do.map_and_filter import FlatMap, Map
from ...transforms.par_do.pardo import ParDo
from ...transforms.write import Write
from ...windowing import GlobalWindow, GlobalWindows


class Writer:
    """Writer of some of a sink's elements."""

    def write(self, value: Any) -> None:
        """Write an element."""
        raise NotImplementedError(f"{type(self).__name__}.write")

    def close(self) -> Any:
        """End writing, and return the result that `Sink.finalize_write` gets, such as a path."""
        raise NotImplementedError(f"{type(self).__name__}.close")

    def at_capacity(self) -> bool:
        """Return whether another writer has to take over."""
        return False


class Sink:
    """An output with writers.  A subclass defines `initialize_write`, `open_writer` and `finalize_write`.

    `finalize_write` is called when all sinks of the pipeline publish their output, at the end of a run that succeeds.
    If a transform is applied to the write, it is called once all elements are written.  After a failure it may be
    called again, with the same arguments.

    Attributes:
      num_shards: the number of writers; 0 for any number.
      skip_if_empty: whether no writer is opened for an empty input.

    >>> import penstock as beam
    >>> class Print(Sink):
    ...     def initialize_write(self):
    ...         return "first"
    ...     def open_writer(self, init_result, uid):
    ...         return Collected()
    ...     def pre_finalize(self, init_result, writer_results):
    ...         pass
    ...     def finalize_write(self, init_result, writer_results, pre_finalize_result):
    ...         print(init_result, sorted(writer_results))
    >>> class Collected(Writer):
    ...     def __init__(self):
    ...         self.values = []
    ...     def write(self, value):
    ...         self.values.append(value)
    ...     def close(self):
    ...         return self.values
    >>> with beam.Pipeline() as p:
    ...     _ = p | beam.Create([1, 2]) | beam.io.Write(Print())
    first [[1, 2]]
    """

    num_shards = 0
    skip_if_empty = False

    def initialize_write(self) -> Any:
        """Begin the write, before the first writer is opened, and return what writers and `finalize_write` get."""
        raise NotImplementedError(f"{type(self).__name__}.initialize_write")

    def open_writer(self, init_result: Any, uid: str) -> Writer:
        """Return a writer.  `uid` is unique to it."""
        raise NotImplementedError(f"{type(self).__name__}.open_writer")

    def pre_finalize(self, init_result: Any, writer_results: Sequence[Any]) -> Any:
        """Prepare the publication, and return what `finalize_write` gets."""
        raise NotImplementedError(f"{type(self).__name__}.pre_finalize")

    def finalize_write(self, init_result: Any, writer_results: Sequence[Any], pre_finalize_result: Any) -> Any:
        """Publish the writers' results, and return the elements of the write's output; None for none."""
        raise NotImplementedError(f"{type(self).__name__}.finalize_write")

    def display_data(self) -> dict[str, Any]:
        """Return what describes the sink."""
        return {}


class WriteByWriters(ComposedSink):
    """A sink of the core for one with writers."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, pcoll: PCollection[Any], label: str) -> PCollection[Any]:
        if not pcoll.is_bounded:
            raise UnsupportedError(
                f"{label}: a Sink with writers takes a bounded input; write an unbounded one by "
                "WriteToText(triggering_frequency=...), by a FileBasedSink, or by a DoFn"
            )
        build = pcoll.pipeline.in_place_of_this(lambda: pcoll | "Write" >> _WriteAndFinalize(self._sink))
        output = WriteOutput[Any](pcoll.pipeline, build, DEFAULT_WINDOWING, Any, True)
        init, results = _written(pcoll, self._sink)
        begun = init | "Begun" >> Map(lambda value: (True, value))
        parts = begun, results | "Written" >> Map(lambda value: (False, value))
        _ = parts | Flatten() | Write(_Finalizer(self._sink))
        return output


convert_sinks(Sink, WriteByWriters)


# The name under which `io` finds it, which has penstock's own `Sink`.
SinkOfWriters = Sink


class _WriteAndFinalize(PTransform):
    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink

    def expand(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        init, results = _written(pcoll, self._sink)
        finalize = FlatMap(_finalized, self._sink, AsIter(results))
        published: PCollection[Any] = init | "FinalizeWrite" >> finalize
        return published


def _written(pcoll: PCollection[Any], sink: Sink) -> tuple[PCollection[Any], PCollection[Any]]:
    """Return the result of `initialize_write`, and the writers' results."""
    begin: PCollection[Any] = pcoll.pipeline | Create([None]) | "InitializeWrite" >> Map(_begun, sink)
    if sink.num_shards:
        grouped = sharded(pcoll, sink.num_shards)
        return begin, grouped | "WriteBundles" >> ParDo(_WriteShard(sink), AsSingleton(begin))
    pcoll = pcoll | WindowInto(GlobalWindows())
    return begin, pcoll | "WriteBundles" >> ParDo(_WriteBundle(sink), AsSingleton(begin))


def _begun(_: None, sink: Sink) -> Any:
    return sink.initialize_write()


def _finalized(init_result: Any, sink: Sink, writer_results: Iterable[Any]) -> list[Any]:
    results = list(writer_results)
    missing = max(1, sink.num_shards) - len(results)
    if results or not sink.skip_if_empty:
        results += [sink.open_writer(init_result, uuid4().hex).close() for _ in range(missing)]
    prepared = sink.pre_finalize(init_result, results)
    return list(sink.finalize_write(init_result, results, prepared) or ())


class _WriteBundle(DoFn):
    """Writes the elements of a bundle."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def start_bundle(self) -> None:
        self._writer: Writer | None = None

    def process(self, element: Any, init_result: Any) -> Iterator[Any]:
        if self._writer is None:
            self._writer = self._sink.open_writer(init_result, uuid4().hex)
        self._writer.write(element)
        if self._writer.at_capacity():
            yield self._writer.close()
            self._writer = None

    def finish_bundle(self) -> Iterator[Any]:
        if self._writer is not None:
            window = GlobalWindow()
            yield WindowedValue(self._writer.close(), window.max_timestamp(), (window,))


class _WriteShard(DoFn):
    """Writes the elements of a shard."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def process(self, element: tuple[int, Iterable[Any]], init_result: Any) -> Iterator[Any]:
        writer = self._sink.open_writer(init_result, uuid4().hex)
        for value in element[1]:
            writer.write(value)
        yield writer.close()


class _Finalizer(OwnSink[Any]):
    """Sink of the results of `initialize_write` and of the writers; its commit is `finalize_write`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def prepare(self, context: SinkContext) -> None:
        """Do nothing: `initialize_write` is a part of the pipeline."""

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _Collecting()

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        entries = [entry for token in staged for entry in token]
        for init_result in [value for is_init, value in entries if is_init]:
            _finalized(init_result, self._sink, [value for is_init, value in entries if not is_init])

    def abort(self, context: SinkContext) -> None:
        """Do nothing: the writers' results are not published."""


class _Collecting(SinkWriter[Any]):
    def __init__(self) -> None:
        self._entries: list[Any] = []

    def write(self, bundle: Bundle) -> None:
        self._entries += bundle.values

    def stage(self) -> tuple[Any, ...]:
        return tuple(self._entries)

    def discard(self) -> None:
        self._entries.clear()
