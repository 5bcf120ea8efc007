"""Segments: the plan of a batch, cut at its shuffles and at side inputs.

A segment is all the work that a task can do with one partition of one input: a source's splits, a grouping's shuffled
blocks, or a stored PCollection.  The consumers of a Flatten run in the segment of each of its inputs.

A segment runs when the side inputs of all of its stages are complete, unless it produces a side input that is needed
earlier.  Then the input of the stage that has to wait is stored, and that stage gets a segment of its own.  Every
PCollection has a *rank*, the number of side inputs that have to be completed one after the other before it can be; and
a *deadline*, the least rank of the side inputs that depend on it.  A stage has to wait if the rank of its side inputs
is beyond the deadline of the segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

import attrs

from ....frozen import frozen
from ....sdk import graph
from .execution_graph import inputs_of
from .fusion import Grouping, Keyed, Output, Plan, Source, Stage, Step, Union


@frozen(eq=False)
class Stored:
    """A PCollection that is stored for a stage that waits for its side inputs."""

    pcollection: int
    stage: Stage


Root: TypeAlias = Source | Grouping | Keyed | Stored


@frozen(eq=False)
class Segment:
    """One input and the steps that run on it before the next shuffle.

    Attributes:
      root: the origin of its elements.
      steps: the steps that run in it.
      groupings: labels of the groupings, and of the ParDos with state, that it sends to.
      stores: the PCollections that it stores.
      stores_for: labels of the stages that it stores them for.  Where a PCollection is produced by several segments, a
        stage may run in one of them and wait for another.
      side_outputs: its PCollections that are side inputs of others.
      sinks: labels of the sinks that it writes to.
      has_ends: True if it has steps without consumers, which run for their effects.
      label: its name in logs, metrics and errors.
    """

    root: Root
    steps: tuple[Step, ...]
    groupings: tuple[str, ...]
    stores: tuple[int, ...]
    stores_for: tuple[str, ...]
    side_outputs: tuple[int, ...]
    sinks: tuple[str, ...]
    has_ends: bool
    label: str = attrs.field(init=False)

    @label.default
    def _label(self) -> str:
        names = [] if isinstance(self.root, Stored) else [self.root.transform.label]
        names += [s.label if isinstance(s, Stage) else s.transform.label for s in self.steps]
        return " → ".join(dict.fromkeys(names))

    @property
    def side_inputs(self) -> set[int]:
        """Return the PCollections that have to be complete before it runs."""
        running = [step for step in self.steps if isinstance(step, Stage)]
        found = {s.pcollection for step in running for s in step.side_inputs}
        return found | {s.pcollection for s in self.root.side_inputs} if isinstance(self.root, Keyed) else found

    @property
    def is_eager(self) -> bool:
        """Return True if the driver needs its results, or it runs for its effects."""
        return bool(self.sinks or self.side_outputs or self.has_ends)

    @property
    def is_of_one_task(self) -> bool:
        """Return True if one task has to read all splits of its source, in their order.

        A retraction finds the recorded outputs of its element where that was processed, and behind it.
        """
        operations = [each for step in self.steps if isinstance(step, Stage) for each in step.operations]
        return isinstance(self.root, Source) and any_records(operations)


def any_records(operations: Iterable[graph.Transform]) -> bool:
    """Return True if outputs of any of these are recorded, so that they can be retracted."""
    return any(map(_records_outputs, operations))


def _records_outputs(operation: graph.Transform) -> bool:
    primitive = operation.primitive
    if not isinstance(primitive, graph.ParDo) or primitive.fn is None or not primitive.retracted:
        return False
    return not primitive.fn.object[0].deterministic


def cut(plan: Plan) -> tuple[Segment, ...]:
    """Return the segments of a plan, inputs and side inputs first."""
    cutter = _Cutter(plan)
    for step in plan.steps:
        if isinstance(step, (Source, Grouping, Keyed)):
            cutter.add(step)
    return _ordered(cutter.segments)


class _Cutter:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.side_inputs = plan.side_input_ids()
        self.segments: list[Segment] = []
        # The ids of stages that wait for side inputs in some segment.
        self._waiting: set[str] = set()
        self._ranks: dict[int, int] = {}
        for step in plan.steps:
            rank = max([_needs(step, self._ranks), *(self._ranks[i] for i in inputs_of(step))])
            self._ranks.update(dict.fromkeys(_outputs(step), rank))
        self._deadlines: dict[int, float] = {
            i: self._ranks[i] if i in self.side_inputs else inf for i in plan.graph.pcollections
        }
        for step in reversed(plan.steps):
            for i in inputs_of(step):
                self._deadlines[i] = min(self._deadlines[i], self._deadline(step))

    def _deadline(self, step: Step) -> float:
        return min((self._deadlines[i] for i in _outputs(step)), default=inf)

    def add(self, root: Root) -> None:
        """Add the segment of a root, and before it the segments of its stages that have to wait."""
        added: list[Segment] = []
        roots = [root]
        while roots:
            segment, waiting = self._segment(roots.pop())
            added.append(segment)
            roots.extend(waiting)
        self.segments.extend(reversed(added))

    def _segment(self, root: Root) -> tuple[Segment, list[Stored]]:
        """Return the segment of a root, and the roots of the stages in it that have to wait."""
        waiting: list[Stored] = []
        steps: list[Step] = []
        stores: list[int] = []
        stores_for: list[str] = []
        side_outputs: list[int] = []
        has_ends = False
        seen: set[int] = set()
        taken: set[str] = set()
        if isinstance(root, Stored):
            deadline = self._deadline(root.stage)
            steps.append(root.stage)
            taken.add(root.stage.id)
            todo = list(root.stage.outputs.values())
        else:
            deadline = self._deadline(root)
            todo = list(root.transform.outputs.values())
        while todo:
            pcollection = todo.pop(0)
            if pcollection in seen:
                continue
            seen.add(pcollection)
            consumers = self.plan.consumers(pcollection)
            if pcollection in self.side_inputs:
                side_outputs.append(pcollection)
            elif not consumers:
                has_ends = True
            for step in consumers:
                if isinstance(step, Stage) and _needs(step, self._ranks) > deadline:
                    stores.append(pcollection)
                    stores_for.append(step.label)
                    if step.id not in self._waiting:
                        self._waiting.add(step.id)
                        waiting.append(Stored(pcollection, step))
                elif step.id not in taken:
                    taken.add(step.id)
                    steps.append(step)
                    if isinstance(step, (Stage, Union)):
                        todo.extend(_outputs(step) if isinstance(step, Union) else step.outputs.values())
        groupings = [step.transform.label for step in steps if isinstance(step, (Grouping, Keyed))]
        groupings += [step.fold.label for step in steps if isinstance(step, Stage) and step.fold is not None]
        segment = Segment(
            root,
            tuple(steps),
            tuple(groupings),
            tuple(dict.fromkeys(stores)),
            tuple(stores_for),
            tuple(side_outputs),
            tuple(step.transform.label for step in steps if isinstance(step, Output)),
            has_ends,
        )
        return segment, waiting


def _outputs(step: Step) -> tuple[int, ...]:
    if isinstance(step, Stage):
        # The PCollection between a stage and its fold has no other consumer.
        return tuple(step.operations[-1].outputs.values())
    return tuple(step.transform.outputs.values())


def _needs(step: Step, ranks: dict[int, int]) -> int:
    """Return the number of side inputs that have to be completed one after the other before a step can run."""
    side_inputs = step.side_inputs if isinstance(step, (Stage, Keyed)) else ()
    return max((ranks[s.pcollection] + 1 for s in side_inputs), default=0)


def dependencies(segments: Sequence[Segment]) -> list[set[int]]:
    """Return for each segment the numbers of the segments that produce its inputs."""
    sending: dict[str, set[int]] = {}
    storing: dict[str, set[int]] = {}
    making: dict[int, set[int]] = {}
    for number, segment in enumerate(segments):
        for label in segment.groupings:
            sending.setdefault(label, set()).add(number)
        for label in segment.stores_for:
            storing.setdefault(label, set()).add(number)
        for pcollection in segment.side_outputs:
            making.setdefault(pcollection, set()).add(number)
    found: list[set[int]] = []
    for number, segment in enumerate(segments):
        needs = set().union(*(making.get(i, ()) for i in segment.side_inputs))
        if isinstance(segment.root, (Grouping, Keyed)):
            needs |= sending.get(segment.root.transform.label, set())
        elif isinstance(segment.root, Stored):
            needs |= storing.get(segment.root.stage.label, set())
        found.append(needs - {number})
    return found


def _ordered(segments: list[Segment]) -> tuple[Segment, ...]:
    """Return the segments in an order of their dependencies; of those that are ready, the first one first."""
    sorter = TopologicalSorter(dict(enumerate(dependencies(segments))))
    sorter.prepare()
    ready: list[int] = []
    ordered: list[Segment] = []
    while sorter:
        for number in sorter.get_ready():
            heappush(ready, number)
        number = heappop(ready)
        ordered.append(segments[number])
        sorter.done(number)
    return tuple(ordered)
