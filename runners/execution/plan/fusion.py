"""Fusion: chains of ParDos and AssignWindows as stages.

A stage is a maximal chain of them without a shuffle: the output of each is the input of the next alone.  The stage ends
where a PCollection has several consumers, or is a side input, or is one of several tagged outputs.  Where the last
output goes to a combining grouping alone, the grouping's fold belongs to the stage.  A ParDo with state or timers needs
all elements of a key in one subtask, so it is a step of its own.  So is an async ParDo, whose elements stay there while
their calls run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

from ....frozen import frozen
from ....sdk import graph
from ....sdk.dofn.async_dofn import is_async
from ....sdk.dofn.batched_dofn import BatchedDoFn, BundleDoFn
from ....sdk.errors import UnsupportedError
from .coded_keys import with_coded_keys
from .read_columns import with_read_columns

# CPython nests at most 20 loops in a function; this leaves room for the stage's own.
MAX_OPERATIONS = 12


@frozen(slots=False)
class Stage:
    """A fused chain.

    Attributes:
      operations: its ParDos and AssignWindows, first to last.
      input: the PCollection that it reads.
      fold: the grouping whose fold is part of it, if any.
    """

    operations: tuple[graph.Transform, ...]
    input: int
    fold: graph.Transform | None = None

    @property
    def id(self) -> str:
        """The label of its first operation: unique among the steps of a plan, and the same in each process."""
        return self.operations[0].label

    @cached_property
    def label(self) -> str:
        """Its name in logs, metrics and errors."""
        names = [t.label for t in self.operations] + ([self.fold.label] if self.fold else [])
        return " + ".join(names)

    @cached_property
    def is_async(self) -> bool:
        """Whether it is a ParDo whose DoFn is async."""
        return _is_async(self.operations[0])

    @property
    def outputs(self) -> dict[graph.Tag, int]:
        """Return its output PCollections by tag; none if it ends in a fold."""
        return {} if self.fold is not None else dict(self.operations[-1].outputs)

    @property
    def side_inputs(self) -> tuple[graph.SideInput, ...]:
        """Return its side inputs."""
        return tuple(s for t in self.operations for s in t.side_inputs)


# The classes of steps without fields of their own are not made by attrs, which takes half a millisecond for each.
@frozen
class _OneTransform:
    """A step that runs one transform."""

    transform: graph.Transform

    @property
    def id(self) -> str:
        """The transform's label: unique among the steps of a plan, and the same in each process."""
        return self.transform.label


class Source(_OneTransform):
    """A Read."""

    __slots__ = ()


@frozen
class Grouping(_OneTransform):
    """A GroupByKeyAndWindow: its shuffle and its window operator."""

    # True if the fold of its window operator runs in the stage before it.
    fused: bool

    @property
    def primitive(self) -> graph.GroupByKeyAndWindow:
        """Return the transform's primitive."""
        primitive = self.transform.primitive
        assert isinstance(primitive, graph.GroupByKeyAndWindow)
        return primitive


class Keyed(_OneTransform):
    """A ParDo with state or timers: its shuffle and its keyed state."""

    __slots__ = ()

    @property
    def stage(self) -> Stage:
        """Return the ParDo as a stage of its own."""
        return Stage((self.transform,), self.transform.inputs[0])

    @property
    def side_inputs(self) -> tuple[graph.SideInput, ...]:
        """Return its side inputs."""
        return self.transform.side_inputs


class Union(_OneTransform):
    """A Flatten."""

    __slots__ = ()


class Output(_OneTransform):
    """A ParDo that is a sink."""

    __slots__ = ()


class Head(_OneTransform):
    """The beginning of a loop, with the loop's input and its feedback as inputs."""

    __slots__ = ()


class Back(_OneTransform):
    """The end of a loop: sends its input back to the loop's head."""

    __slots__ = ()

    @property
    def head(self) -> str:
        """Return the label of the loop's head."""
        primitive = self.transform.primitive
        assert isinstance(primitive, graph.Feedback)
        assert primitive.head is not None
        return primitive.head


Step: TypeAlias = Stage | Source | Grouping | Keyed | Union | Output | Head | Back


@frozen(slots=False)
class Plan:
    """The steps of a graph, inputs first.

    Attributes:
      compares_keys: True if the keys after a restart are compared with those of the checkpoint, by their types.
    """

    steps: tuple[Step, ...]
    graph: graph.Graph
    compares_keys: bool = True

    def consumers(self, pcollection: int) -> list[Step]:
        """Return the steps that have a PCollection as their main input, once for each time they have it."""
        return self._consumers.get(pcollection, [])

    @cached_property
    def _consumers(self) -> dict[int, list[Step]]:
        consumers: dict[int, list[Step]] = {}
        for step in self.steps:
            if isinstance(step, Stage):
                consumers.setdefault(step.input, []).append(step)
            elif not isinstance(step, Grouping) or not step.fused:
                for pcollection in step.transform.inputs:
                    consumers.setdefault(pcollection, []).append(step)
        return consumers

    def side_input_ids(self) -> set[int]:
        """Return the PCollections that are a side input of some stage."""
        return set(self._side_inputs)

    @cached_property
    def _side_inputs(self) -> set[int]:
        return _side_input_ids(self.graph)


def has_async(steps: Iterable[Step]) -> bool:
    """Return True if a step is an async stage."""
    return any(isinstance(step, Stage) and step.is_async for step in steps)


def is_final(grouping: graph.GroupByKeyAndWindow) -> bool:
    """Return True if each window of a bounded input has one result, in whatever order the input arrives.

    It has unless the trigger counts elements, or inputs are retracted.
    """
    return not (grouping.windowing.trigger.element_wise or grouping.retracted)


def shrinks(grouping: graph.GroupByKeyAndWindow) -> bool:
    """Return True if a stage may fold into a table before the grouping's shuffle, which shrinks a bounded input."""
    window_fn = grouping.windowing.window_fn
    can_merge = window_fn.merges_by_overlap or not window_fn.is_merging
    return is_final(grouping) and grouping.combine is not None and can_merge


# Returns True for a grouping if the stage before it may end in its fold.
MayFold: TypeAlias = Callable[[graph.GroupByKeyAndWindow], bool]


def never(grouping: graph.GroupByKeyAndWindow) -> bool:
    """Return False: no stage ends in the fold of a grouping."""
    return False


def in_place(grouping: graph.GroupByKeyAndWindow) -> bool:
    """Return True if a stage may fold into the cells of the grouping's window operator."""
    return is_final(grouping)


def fuse(pipeline: graph.Graph, may_fold: MayFold = never) -> Plan:
    """Return the plan of a graph.

    Args:
      may_fold: says which stages end in a fold: `in_place`, `shrinks`, or `never`.

    Raises `UnsupportedError` if there are two scripts (TestStream).
    """
    _check_scripts(pipeline)
    pipeline = with_coded_keys(with_read_columns(pipeline))
    uses = Counter(i for t in pipeline.transforms for i in t.inputs)
    side_inputs = _side_input_ids(pipeline)
    chains: list[list[graph.Transform]] = []
    # By output, the chains to which one more operation may be fused.
    open_chains: dict[int, list[graph.Transform]] = {}
    folds: dict[str, graph.Transform] = {}
    order: list[list[graph.Transform] | Step] = []
    for transform in pipeline.transforms:
        primitive = transform.primitive
        if isinstance(primitive, graph.Read):
            order.append(Source(transform))
        elif isinstance(primitive, graph.Flatten):
            order.append(Union(transform))
        elif isinstance(primitive, graph.Feedback):
            order.append(Head(transform) if primitive.head is None else Back(transform))
        elif isinstance(primitive, graph.ParDo) and primitive.sink is not None:
            order.append(Output(transform))
        elif isinstance(primitive, graph.ParDo) and primitive.keyed is not None:
            order.append(Keyed(transform))
        elif isinstance(primitive, graph.GroupByKeyAndWindow):
            chain = open_chains.pop(transform.inputs[0], None)
            if chain is not None and not may_fold(primitive):
                chain = None
            if chain is not None:
                folds[chain[-1].label] = transform
            order.append(Grouping(transform, fused=chain is not None))
        else:
            chain = open_chains.pop(transform.inputs[0], None)
            if chain is None or len(chain) >= MAX_OPERATIONS or transform.side_inputs or _begins(transform, chain):
                chain = []
                chains.append(chain)
                order.append(chain)
            chain.append(transform)
            (output, *others) = transform.outputs.values()
            ends = _yields_bundles(transform) or _is_async(transform)
            if not others and uses[output] == 1 and output not in side_inputs and not ends:
                open_chains[output] = chain
    steps: list[Step] = []
    for item in order:
        if not isinstance(item, list):
            steps.append(item)
        else:
            steps.append(_stage(item, folds.get(item[-1].label)))
    return Plan(tuple(steps), pipeline)


def _begins(transform: graph.Transform, chain: Sequence[graph.Transform]) -> bool:
    """Return True if a transform can't be fused to these: it needs columns or batches that they don't give, or is
    async."""
    if _is_async(transform):
        return True
    operation = transform.column_operation
    if operation is None or not operation.is_needed:
        return False
    if isinstance(operation, (BatchedDoFn, BundleDoFn)):
        # A batch is a list, too, of which columns may not be possible.
        return any(t.column_operation is None or not t.column_operation.is_needed for t in chain)
    return not all(t.understands_columns for t in chain)


def _is_async(transform: graph.Transform) -> bool:
    primitive = transform.primitive
    return isinstance(primitive, graph.ParDo) and primitive.fn is not None and is_async(primitive.fn.object[0])


def _yields_bundles(transform: graph.Transform) -> bool:
    primitive = transform.primitive
    return isinstance(primitive, graph.ParDo) and primitive.fn is not None and primitive.fn.object[0].yields_bundles


def _stage(chain: Sequence[graph.Transform], fold: graph.Transform | None) -> Stage:
    return Stage(tuple(chain), chain[0].inputs[0], fold)


def _check_scripts(pipeline: graph.Graph) -> None:
    scripts = pipeline.scripts()
    if len(scripts) > 1:
        raise UnsupportedError(
            f"{scripts[1].label}: the pipeline has another TestStream, {scripts[0].label}, and there is one clock; use "
            "one with several output_tags"
        )


def _side_input_ids(pipeline: graph.Graph) -> set[int]:
    return {s.pcollection for t in pipeline.transforms for s in t.side_inputs}
