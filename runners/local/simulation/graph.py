"""Graph of a pipeline as a simulation runs it: with simulated sinks, and with bounded sources for the plain run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ....sdk.elements.bundle import BUNDLE_SIZE, Bundle
from ....sdk.errors import UnsupportedError
from ....sdk.graph import Graph, GroupByKeyAndWindow, ParDo, PCollectionNode, Read, Transform
from ....sdk.sink import LabelledSink, Sink
from ....sdk.sources.bounded import BoundedSource
from ....sdk.sources.unbounded import UnboundedSource
from ....triggers import DefaultTrigger
from ....windowing.timestamp import Timestamp
from ...execution.sinks.committer import with_replaced_sinks

# Polls, a second apart, and elements after which a source is taken to have no end.
PATIENCE = 20_000
LONGEST = 100_000


def sinks_of(graph: Graph) -> list[str]:
    """Return the labels of the sinks, and of the simulated sinks of unconsumed PCollections."""
    own = [t.label for t in graph.transforms if isinstance(t.primitive, ParDo) and t.primitive.sink is not None]
    return own + [_label_of(node) for node in _unconsumed(graph)]


def with_sinks(graph: Graph, sinks: Mapping[str, Sink[Any]]) -> Graph:
    """Return the graph with other sinks, by label, also for unconsumed PCollections."""
    replaced = with_replaced_sinks(graph, lambda label, sink: attrs.evolve(sink, sink=sinks[label]))
    labels = [(_label_of(node), node.id) for node in _unconsumed(graph)]
    added = (Transform(label, ParDo(None, sink=LabelledSink(sinks[label], label)), (id,), {}) for label, id in labels)
    return attrs.evolve(replaced, transforms=(*replaced.transforms, *added))


def _unconsumed(graph: Graph) -> list[PCollectionNode]:
    """Return the PCollections without consumers that aren't the output of a sink."""
    consumed = {i for t in graph.transforms for i in (*t.inputs, *(s.pcollection for s in t.side_inputs))}
    made = [
        i
        for t in graph.transforms
        if not (isinstance(t.primitive, ParDo) and t.primitive.sink is not None)
        for i in t.outputs.values()
    ]
    return [graph.pcollections[i] for i in made if i not in consumed]


def _label_of(node: PCollectionNode) -> str:
    return f"output of {node.producer}" + ("" if node.tag is None else f"[{node.tag}]")


def is_monotone(graph: Graph) -> bool:
    """Return True if results are never replaced by later panes."""
    groupings = [t.primitive for t in graph.transforms if isinstance(t.primitive, GroupByKeyAndWindow)]
    return not graph.has_script and all(isinstance(g.windowing.trigger, DefaultTrigger) for g in groupings)


def in_batch(graph: Graph) -> Graph:
    """Return the graph with bounded sources in the place of unbounded ones."""
    transforms = []
    for transform in graph.transforms:
        primitive = transform.primitive
        if isinstance(primitive, Read) and isinstance(primitive.source, UnboundedSource):
            source = WholeSource(transform.label, primitive.source)
            transform = attrs.evolve(transform, primitive=attrs.evolve(primitive, source=source))
        transforms.append(transform)
    pcollections = graph.pcollections
    if not graph.has_script:
        pcollections = {i: attrs.evolve(node, is_bounded=True) for i, node in pcollections.items()}
    return Graph(tuple(transforms), pcollections)


class WholeSource(BoundedSource[Any]):
    """Bounded source of all elements of an unbounded source that ends; each poll is a second after the last."""

    def __init__(self, label: str, source: UnboundedSource[Any]) -> None:
        self._label = label
        self._source = source

    def split(self, desired_splits: int) -> Sequence[Any]:
        if self._source.discovery_interval is not None:
            raise self._endless()
        return self._source.partitions()

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        reader = self._source.open(split, None)
        count = 0
        try:
            for second in range(PATIENCE):
                bundle = reader.poll(BUNDLE_SIZE, Timestamp(second))
                if bundle is not None and len(bundle):
                    count += len(bundle)
                    if count > LONGEST:
                        break
                    yield bundle
                elif reader.is_finished():
                    return
        finally:
            reader.close()
        raise self._endless()

    def _endless(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self._label}: {type(self._source).__name__} has no end, and a simulation compares whole results; "
            "give it one, such as GenerateSequence has with `stop`"
        )
