"""Segments: the plan cut at its shuffles, and where a side input has to be complete.

A segment is everything that a task can do with one partition of one input: a source's
splits, a grouping's shuffled blocks, or a PCollection that had to be stored.  What follows a
Flatten runs in the segment of each of its inputs.

A segment waits until the side inputs of all of its stages are complete, unless it makes a
side input that is needed earlier: then what comes before the stage that waits is stored, and
the stage gets a segment of its own.  Every PCollection has a *rank*, the number of side inputs
that have to be completed one after the other before it can be; and a *deadline*, the least
rank of the side inputs that are made of it.  A stage whose side inputs have a rank beyond the
deadline of the segment is the one that waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

import attrs

from .execution_graph import inputs_of
from .fusion import Grouping, Keyed, Output, Plan, Source, Stage, Step, Union


@attrs.frozen(eq=False)
class Stored:
    """A PCollection that was stored for the one stage that waits."""

    pcollection: int
    stage: Stage


Root: TypeAlias = Source | Grouping | Keyed | Stored


@attrs.frozen(eq=False)
class Segment:
    """One input and all that is done with it before the next shuffle.

    Attributes:
      root: where its elements come from.
      steps: the steps that run in it.
      groupings: labels of the groupings, and of the ParDos with state, that it sends to.
      stores: PCollections that it stores.
      left: labels of the stages that it stores them for.  Where a PCollection is made by several
        segments, a stage may run in one of them and be left to wait by another.
      side_outputs: PCollections that it makes which are side inputs of others.
      sinks: labels of the sinks that it writes to.
      has_ends: whether it has steps whose output nobody takes: they run for their effects.
    """

    root: Root
    steps: tuple[Step, ...]
    groupings: tuple[str, ...]
    stores: tuple[int, ...]
    left: tuple[str, ...]
    side_outputs: tuple[int, ...]
    sinks: tuple[str, ...]
    has_ends: bool

    @property
    def label(self) -> str:
        """What to call it where people look."""
        names = [] if isinstance(self.root, Stored) else [self.root.transform.label]
        names += [s.label if isinstance(s, Stage) else s.transform.label for s in self.steps]
        return " → ".join(dict.fromkeys(names))

    @property
    def side_inputs(self) -> set[int]:
        """PCollections that have to be complete before it runs."""
        running = [step for step in self.steps if isinstance(step, Stage)]
        found = {s.pcollection for step in running for s in step.side_inputs}
        return found | {s.pcollection for s in self.root.side_inputs} if isinstance(self.root, Keyed) else found

    @property
    def is_eager(self) -> bool:
        """Whether something of it comes back to the driver, or it runs for its effects."""
        return bool(self.sinks or self.side_outputs or self.has_ends)


def cut(plan: Plan) -> tuple[Segment, ...]:
    """The segments of a plan, in an order in which inputs and side inputs come first."""
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
        # The ids of stages that wait in some segment.
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
        """The segment of a root, and before it those of the stages that have to wait in it."""
        added: list[Segment] = []
        roots = [root]
        while roots:
            segment, waiting = self._segment(roots.pop())
            added.append(segment)
            roots.extend(waiting)
        self.segments.extend(reversed(added))

    def _segment(self, root: Root) -> tuple[Segment, list[Stored]]:
        """The segment of a root, and what the stages that have to wait in it begin with."""
        waiting: list[Stored] = []
        steps: list[Step] = []
        stores: list[int] = []
        left: list[str] = []
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
                    left.append(step.label)
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
            tuple(left),
            tuple(side_outputs),
            tuple(step.transform.label for step in steps if isinstance(step, Output)),
            has_ends,
        )
        return segment, waiting


def _outputs(step: Step) -> tuple[int, ...]:
    if isinstance(step, Stage):
        # What is between the stage and the fold that it ends in has no other consumer.
        return tuple(step.operations[-1].outputs.values())
    return tuple(step.transform.outputs.values())


def _needs(step: Step, ranks: dict[int, int]) -> int:
    """How many side inputs have to be completed one after the other before a step can run."""
    side_inputs = step.side_inputs if isinstance(step, (Stage, Keyed)) else ()
    return max((ranks[s.pcollection] + 1 for s in side_inputs), default=0)


def dependencies(segments: Sequence[Segment]) -> list[set[int]]:
    """Return for each segment the numbers of those that make what it needs."""
    sending: dict[str, set[int]] = {}
    leaving: dict[str, set[int]] = {}
    making: dict[int, set[int]] = {}
    for number, segment in enumerate(segments):
        for label in segment.groupings:
            sending.setdefault(label, set()).add(number)
        for label in segment.left:
            leaving.setdefault(label, set()).add(number)
        for pcollection in segment.side_outputs:
            making.setdefault(pcollection, set()).add(number)
    found: list[set[int]] = []
    for number, segment in enumerate(segments):
        needs = set().union(*(making.get(i, ()) for i in segment.side_inputs))
        if isinstance(segment.root, (Grouping, Keyed)):
            needs |= sending.get(segment.root.transform.label, set())
        elif isinstance(segment.root, Stored):
            needs |= leaving.get(segment.root.stage.label, set())
        found.append(needs - {number})
    return found


def _ordered(segments: list[Segment]) -> tuple[Segment, ...]:
    """Return the segments, those that make what another one needs before it; of those that are ready, the first."""
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
