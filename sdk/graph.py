"""The graph: a pipeline as frozen data, which is all that a runner is given.

Six primitives, of which everything else is composed:

Read                   a source's elements
ParDo                  a function of each element, with side inputs and tagged outputs; or a sink
AssignWindows          each element's windows
GroupByKeyAndWindow    elements of one key and window, together; maybe combined
Flatten                several PCollections as one
Feedback               a PCollection that comes back (the streaming runner)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeAlias

import attrs

from .combine_fn import CombineFn
from .dofn import DoFn
from .serialization import Serialized
from .side_input_views import SingletonView, View
from .sink import Sink
from .sources.bounded import BoundedSource
from .sources.scripted_source import Script
from .sources.unbounded import UnboundedSource
from .windowing_strategy import WindowingStrategy

# A main output's tag is None.
Tag: TypeAlias = str | None


@attrs.frozen
class PCollectionNode:
    """One PCollection of the graph.

    Attributes:
      id: its number, unique in the graph.
      producer: the full label of the transform that makes it.
      tag: which output of that transform it is.
    """

    id: int
    producer: str
    tag: Tag
    windowing: WindowingStrategy
    element_type: Any
    is_bounded: bool


@attrs.frozen
class SideInput:
    """A PCollection as another one's ParDo sees it."""

    pcollection: int
    view: View
    windowing: WindowingStrategy


@attrs.frozen
class SideInputArgument:
    """Stands among a ParDo's arguments where the side input of this index belongs."""

    index: int


@attrs.frozen
class Read:
    source: BoundedSource[Any] | UnboundedSource[Any] | Script


@attrs.frozen
class KeyedParDo:
    """What a ParDo with state and timers needs besides.

    Attributes:
      windowing: its input's; a window's state is kept for the allowed lateness.
      may_retract: whether it may put out retractions.
      codes_keys: whether keys of its input may be in coded form.
    """

    windowing: WindowingStrategy
    may_retract: bool = False
    codes_keys: bool = False


@attrs.frozen
class ParDo:
    """A DoFn and its arguments; or a sink, and no DoFn.

    Among the arguments a `SideInputArgument` stands for each side input.  `keyed` is there
    if the DoFn keeps state or sets timers.
    """

    fn: Serialized[tuple[DoFn, tuple[Any, ...], Mapping[str, Any]]] | None
    side_inputs: tuple[SideInput, ...] = ()
    sink: Sink[Any] | None = None
    keyed: KeyedParDo | None = None
    # Whether its input may hold retractions.
    retracted: bool = False
    # Whether outputs with a tag that nobody asked for are dropped; otherwise they are an error.
    any_tag: bool = False


@attrs.frozen
class AssignWindows:
    windowing: WindowingStrategy


@attrs.frozen
class GroupByKeyAndWindow:
    """The paper's five steps.  `combine` is there so that a runner can lift it before the shuffle."""

    windowing: WindowingStrategy
    combine: Serialized[CombineFn[Any, Any, Any]] | None = None
    # Whether its input may hold retractions.
    retracted: bool = False


@attrs.frozen
class Flatten:
    pass


@attrs.frozen
class Feedback:
    """A loop's head, whose output is its input and what comes back; or its end, from where it does.

    Attributes:
      head: of an end, the label of the head; None of a head.
    """

    head: str | None = None


Primitive: TypeAlias = Read | ParDo | AssignWindows | GroupByKeyAndWindow | Flatten | Feedback


def frozen(primitive: Primitive) -> Primitive:
    """Return a primitive for a run: the user's functions in it are pickled as they are now.

    Raises `SerializationError`, naming the transform, for one that can't be pickled any more.
    """
    if isinstance(primitive, ParDo) and primitive.fn is not None:
        side_inputs = tuple(_frozen_side_input(s) for s in primitive.side_inputs)
        return attrs.evolve(primitive, fn=primitive.fn.frozen(), side_inputs=side_inputs)
    if isinstance(primitive, GroupByKeyAndWindow) and primitive.combine is not None:
        return attrs.evolve(primitive, combine=primitive.combine.frozen())
    if isinstance(primitive, Read) and isinstance(primitive.source, UnboundedSource):
        return Read(primitive.source.for_run())
    return primitive


def _frozen_side_input(side_input: SideInput) -> SideInput:
    view = side_input.view
    if not isinstance(view, SingletonView) or view.make_default is None:
        return side_input
    return attrs.evolve(side_input, view=attrs.evolve(view, make_default=view.make_default.frozen()))


@attrs.frozen
class Transform:
    """One primitive, applied.

    Attributes:
      label: the full label, composites first: "Count/Pair".
      inputs: ids of its main inputs, in order.
      outputs: the id of each output, by tag.
      delivery: "strong" or "weak", where it was said (`with_delivery`).
    """

    label: str
    primitive: Primitive
    inputs: tuple[int, ...]
    outputs: Mapping[Tag, int]
    delivery: str | None = None

    @property
    def side_inputs(self) -> tuple[SideInput, ...]:
        """What it reads besides its main inputs."""
        return self.primitive.side_inputs if isinstance(self.primitive, ParDo) else ()


@attrs.frozen(slots=False)
class Graph:
    """The whole pipeline.  Transforms stand in an order in which inputs come first."""

    transforms: tuple[Transform, ...]
    pcollections: Mapping[int, PCollectionNode]

    def consumers(self, pcollection: int) -> tuple[Transform, ...]:
        """Transforms that have it as a main input."""
        return self._consumers.get(pcollection, ())

    @cached_property
    def _consumers(self) -> dict[int, tuple[Transform, ...]]:
        consumers: dict[int, list[Transform]] = {}
        for transform in self.transforms:
            for pcollection in dict.fromkeys(transform.inputs):
                consumers.setdefault(pcollection, []).append(transform)
        return {pcollection: tuple(of) for pcollection, of in consumers.items()}

    def producer(self, pcollection: int) -> Transform:
        """The transform that makes it."""
        return self._producers[pcollection]

    @cached_property
    def _producers(self) -> dict[int, Transform]:
        return {i: transform for transform in self.transforms for i in transform.outputs.values()}

    def unbounded_reads(self) -> tuple[Transform, ...]:
        """Those that read sources without an end; a script isn't one."""
        return tuple(t for t in self.transforms if _is_unbounded_read(t))

    def unbounded_read_above(self, pcollection: int) -> Transform | None:
        """One that reads a source without an end, and that a PCollection comes from."""
        todo, seen = [pcollection], {pcollection}
        while todo:
            producer = self.producer(todo.pop())
            if _is_unbounded_read(producer):
                return producer
            found = [i for i in producer.inputs if i not in seen and not self.pcollections[i].is_bounded]
            todo.extend(found)
            seen.update(found)
        return None

    def loops(self) -> tuple[Transform, ...]:
        """The heads of its loops."""
        return tuple(t for t in self.transforms if isinstance(t.primitive, Feedback) and t.primitive.head is None)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether every PCollection of it ends."""
        return all(p.is_bounded for p in self.pcollections.values())

    @cached_property
    def has_script(self) -> bool:
        """Whether a script says what time it is."""
        return any(isinstance(t.primitive, Read) and isinstance(t.primitive.source, Script) for t in self.transforms)


def _is_unbounded_read(transform: Transform) -> bool:
    return isinstance(transform.primitive, Read) and isinstance(transform.primitive.source, UnboundedSource)
