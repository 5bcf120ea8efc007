"""The graph of a pipeline, as a simulation runs it: with sinks of its own, and once in batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ....sdk.bundle import BUNDLE_SIZE, Bundle
from ....sdk.errors import UnsupportedError
from ....sdk.graph import Graph, GroupByKeyAndWindow, ParDo, PCollectionNode, Read, Transform
from ....sdk.sink import Sink
from ....sdk.sources.bounded import BoundedSource
from ....sdk.sources.unbounded import UnboundedSource
from ....triggers import DefaultTrigger
from ....windowing.timestamp import Timestamp
from ...execution.sinks.committer import with_replaced_sinks

# A source that isn't finished after so many polls, each a second after the one before, is taken to have no end;
# nor has one that gives more elements than a simulation could be tried on.
PATIENCE = 20_000
LONGEST = 100_000


def sinks_of(graph: Graph) -> list[str]:
    """The labels of the sinks, and of what is watched because nobody takes it."""
    own = [t.label for t in graph.transforms if isinstance(t.primitive, ParDo) and t.primitive.sink is not None]
    return own + [_watched(node) for node in _untaken(graph)]


def with_sinks(graph: Graph, sinks: Mapping[str, Sink[Any]]) -> Graph:
    """The same with other sinks, by label, and with some for what nobody takes."""
    replaced = with_replaced_sinks(graph, lambda label, _: sinks[label])
    labels = [(_watched(node), node.id) for node in _untaken(graph)]
    watching = (Transform(label, ParDo(None, sink=sinks[label]), (id,), {}) for label, id in labels)
    return attrs.evolve(replaced, transforms=(*replaced.transforms, *watching))


def _untaken(graph: Graph) -> list[PCollectionNode]:
    """The PCollections that nobody takes, and that don't come of a sink."""
    taken = {i for t in graph.transforms for i in (*t.inputs, *(s.pcollection for s in t.side_inputs))}
    made = [
        i
        for t in graph.transforms
        if not (isinstance(t.primitive, ParDo) and t.primitive.sink is not None)
        for i in t.outputs.values()
    ]
    return [graph.pcollections[i] for i in made if i not in taken]


def _watched(node: PCollectionNode) -> str:
    return f"what comes of {node.producer}" + ("" if node.tag is None else f"[{node.tag}]")


def is_monotone(graph: Graph) -> bool:
    """Whether results are never replaced: each is final when it comes."""
    groupings = [t.primitive for t in graph.transforms if isinstance(t.primitive, GroupByKeyAndWindow)]
    return not graph.has_script and all(isinstance(g.windowing.trigger, DefaultTrigger) for g in groupings)


def in_batch(graph: Graph) -> Graph:
    """The same with all of its input at hand."""
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
    """All that an unbounded source gives until its partitions are finished; its clock runs as fast as it likes."""

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
