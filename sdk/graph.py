"""The graph: a pipeline as frozen data, which is the input of a runner.

All transforms are composed of six primitives:

Read                   a source's elements
ParDo                  a function of each element, with side inputs and tagged outputs; or a sink
AssignWindows          each element's windows
GroupByKeyAndWindow    elements of one key and window, together; maybe combined
Flatten                several PCollections as one
Feedback               a PCollection that is fed back (the streaming runner)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ..frozen import frozen
from ..windowing.buckets import bucketing
from ..windowing.duration import Duration
from .combine_fn import CombineFn
from .dofn.dofn import DoFn
from .side_input_views import PanesSeen, SingletonView, View
from .sink import LabelledSink
from .sources.bounded import BoundedSource
from .sources.unbounded import UnboundedSource
from .user_code.serialization import Serialized
from .windowing_strategy import WindowingStrategy

if TYPE_CHECKING:
    from .sources.scripted_source import Script

# A main output's tag is None.
Tag: TypeAlias = str | None


@frozen
class PCollectionNode:
    """One PCollection of the graph.

    Attributes:
      id: its number, unique in the graph.
      producer: the full label of the transform that produces it.
      tag: the tag of that transform's output.
    """

    id: int
    producer: str
    tag: Tag
    windowing: WindowingStrategy
    element_type: Any
    is_bounded: bool


@frozen
class SideInput:
    """A PCollection as a side input of a ParDo."""

    pcollection: int
    view: View
    windowing: WindowingStrategy
    panes: PanesSeen = PanesSeen.ALL


@frozen
class SideInputArgument:
    """Placeholder, among a ParDo's arguments, for the side input of this index."""

    index: int


@frozen
class Read:
    source: BoundedSource[Any] | UnboundedSource[Any] | Script


@frozen
class KeyedParDo:
    """Properties of a ParDo with state and timers.

    Attributes:
      windowing: the windowing of its input.  A window's state is kept for the allowed lateness.
      may_retract: whether its outputs may include retractions.
      codes_keys: whether keys of its input may be in coded form.
    """

    windowing: WindowingStrategy
    may_retract: bool = False
    codes_keys: bool = False


@frozen
class ParDo:
    """A DoFn and its arguments, or a sink without a DoFn.

    Among the arguments a `SideInputArgument` stands for each side input.  `keyed` is set if the DoFn has state or
    timers.
    """

    fn: Serialized[tuple[DoFn, tuple[Any, ...], Mapping[str, Any]]] | None
    side_inputs: tuple[SideInput, ...] = ()
    sink: LabelledSink | None = None
    keyed: KeyedParDo | None = None
    # Whether its input may include retractions, and how long after the end of their windows: None without a limit.
    retracted: bool = False
    retractable_for: Duration | None = None
    # Whether outputs with an undeclared tag are dropped; otherwise they are an error.
    any_tag: bool = False


@frozen
class AssignWindows:
    windowing: WindowingStrategy


@frozen
class GroupByKeyAndWindow:
    """The paper's five steps.  A runner can apply `combine` before the shuffle as well."""

    windowing: WindowingStrategy
    combine: Serialized[CombineFn[Any, Any, Any]] | None = None
    # Whether its input may include retractions.
    retracted: bool = False
    # Whether elements may be emitted as they arrive, since nothing looks at groups and panes.
    only_shuffles: bool = False


@frozen
class Flatten:
    pass


@frozen
class Feedback:
    """The head of a loop, whose output is its input and the fed-back elements; or the end of a loop, which feeds back.

    Attributes:
      head: for an end, the label of its head; for a head, None.
    """

    head: str | None = None


Primitive: TypeAlias = Read | ParDo | AssignWindows | GroupByKeyAndWindow | Flatten | Feedback


def for_run(primitive: Primitive) -> Primitive:
    """Return a primitive for a run, with its user functions pickled in their present state.

    Raises `SerializationError`, naming the transform, for a function that can't be pickled any more.
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


@frozen
class Transform:
    """An applied primitive.

    Attributes:
      label: the full label, composites first: "Count/Pair".
      inputs: ids of its main inputs, in order.
      outputs: the id of each output, by tag.
      delivery: "strong" or "weak", if declared by `with_delivery`.
    """

    label: str
    primitive: Primitive
    inputs: tuple[int, ...]
    outputs: Mapping[Tag, int]
    delivery: str | None = None

    @property
    def side_inputs(self) -> tuple[SideInput, ...]:
        """Its side inputs."""
        return self.primitive.side_inputs if isinstance(self.primitive, ParDo) else ()

    def with_ids(self, renamed: Mapping[int, int]) -> Transform:
        """Return the transform with other ids of PCollections, by their present ones."""
        primitive = self.primitive
        if isinstance(primitive, ParDo):
            ids = [renamed.get(one.pcollection, one.pcollection) for one in self.side_inputs]
            sides = tuple(attrs.evolve(one, pcollection=i) for one, i in zip(self.side_inputs, ids))
            primitive = attrs.evolve(primitive, side_inputs=sides)
        inputs = tuple(renamed.get(i, i) for i in self.inputs)
        outputs = {tag: renamed.get(i, i) for tag, i in self.outputs.items()}
        return attrs.evolve(self, primitive=primitive, inputs=inputs, outputs=outputs)

    @property
    def column_operation(self) -> Any:
        """What its DoFn does with columns (`ColumnOperation`, `BatchedDoFn`); None if it understands elements only."""
        if not isinstance(self.primitive, ParDo) or self.primitive.fn is None:
            return None
        return self.primitive.fn.object[0].column_operation

    @property
    def understands_columns(self) -> bool:
        """Whether it can be applied to columns whatever elements they were made of."""
        if isinstance(self.primitive, AssignWindows):
            return bucketing(self.primitive.windowing.window_fn) is not None
        operation = self.column_operation
        return operation is not None and operation.takes_records


@frozen(slots=False)
class Graph:
    """The whole pipeline.  A transform follows the transforms of its inputs.

    Attributes:
      settings: for a drawing, the display data of the user's transforms as texts, by full label.
    """

    transforms: tuple[Transform, ...]
    pcollections: Mapping[int, PCollectionNode]
    settings: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, eq=False)

    def consumers(self, pcollection: int) -> tuple[Transform, ...]:
        """Return the transforms with a PCollection as main input."""
        return self._consumers.get(pcollection, ())

    @cached_property
    def _consumers(self) -> dict[int, tuple[Transform, ...]]:
        consumers: dict[int, list[Transform]] = {}
        for transform in self.transforms:
            for pcollection in dict.fromkeys(transform.inputs):
                consumers.setdefault(pcollection, []).append(transform)
        return {pcollection: tuple(of) for pcollection, of in consumers.items()}

    def producer(self, pcollection: int) -> Transform:
        """Return the transform that produces a PCollection."""
        return self._producers[pcollection]

    @cached_property
    def _producers(self) -> dict[int, Transform]:
        return {i: transform for transform in self.transforms for i in transform.outputs.values()}

    def unbounded_reads(self) -> tuple[Transform, ...]:
        """Return the transforms that read unbounded sources, scripts excluded."""
        return tuple(t for t in self.transforms if _is_unbounded_read(t))

    def unbounded_read_above(self, pcollection: int) -> Transform | None:
        """Return an unbounded read that a PCollection depends on, if there is one."""
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
        """Return the heads of the loops."""
        return tuple(t for t in self.transforms if isinstance(t.primitive, Feedback) and t.primitive.head is None)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether every PCollection is bounded."""
        return all(p.is_bounded for p in self.pcollections.values())

    @cached_property
    def has_script(self) -> bool:
        """Whether a script controls the time."""
        return bool(self.scripts())

    @cached_property
    def is_batch(self) -> bool:
        """Whether all input is bounded, and there is no script and no loop."""
        return self.is_bounded and not self.has_script and not self.loops()

    def scripts(self) -> tuple[Transform, ...]:
        """Return the reads of scripts."""
        return tuple(filter(_is_scripted_read, self.transforms))


def _is_scripted_read(transform: Transform) -> bool:
    primitive = transform.primitive
    return isinstance(primitive, Read) and not isinstance(primitive.source, (BoundedSource, UnboundedSource))


def _is_unbounded_read(transform: Transform) -> bool:
    return isinstance(transform.primitive, Read) and isinstance(transform.primitive.source, UnboundedSource)
