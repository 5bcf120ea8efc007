"""Segments: the plan cut at its shuffles, and where a side input has to be complete.

A segment is everything that a task can do with one partition of one input: a source's
splits, a grouping's shuffled blocks, or a PCollection that was stored because its consumer
waits for side inputs.  What follows a Flatten runs in the segment of each of its inputs.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ..execution.fusion import Grouping, Output, Plan, Source, Stage, Step, Union


@attrs.frozen
class Stored:
    """A PCollection that was stored."""

    pcollection: int


Root: TypeAlias = Source | Grouping | Stored


@attrs.frozen
class Segment:
    """One input and all that is done with it before the next shuffle.

    Attributes:
      root: where its elements come from.
      steps: the steps that run in it.
      groupings: labels of the groupings that it sends to.
      stores: PCollections that it stores.
      side_outputs: PCollections that it makes which are side inputs of others.
      sinks: labels of the sinks that it writes to.
      has_ends: whether it has steps whose output nobody takes: they run for their effects.
    """

    root: Root
    steps: tuple[Step, ...]
    groupings: tuple[str, ...]
    stores: tuple[int, ...]
    side_outputs: tuple[int, ...]
    sinks: tuple[str, ...]
    has_ends: bool

    @property
    def label(self) -> str:
        """What to call it where people look."""
        root = f"PCollection {self.root.pcollection}" if isinstance(self.root, Stored) else self.root.transform.label
        steps = [s.label if isinstance(s, Stage) else s.transform.label for s in self.steps if not isinstance(s, Union)]
        return " → ".join([root, *steps])

    @property
    def side_inputs(self) -> set[int]:
        """PCollections that have to be complete before it runs."""
        return {s.pcollection for step in self.steps if isinstance(step, Stage) for s in step.side_inputs}

    @property
    def is_eager(self) -> bool:
        """Whether something of it comes back to the driver, or it runs for its effects."""
        return bool(self.sinks or self.side_outputs or self.has_ends)


def cut(plan: Plan) -> tuple[Segment, ...]:
    """The segments of a plan, in an order in which inputs and side inputs come first."""
    cutter = _Cutter(plan)
    for step in plan.steps:
        if isinstance(step, (Source, Grouping)):
            cutter.add(step)
    return _ordered(cutter.segments)


class _Cutter:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.side_inputs = plan.side_input_ids()
        self.segments: list[Segment] = []
        self.stored: set[int] = set()

    def add(self, root: Root) -> None:
        steps: list[Step] = []
        groupings: list[str] = []
        stores: list[int] = []
        side_outputs: list[int] = []
        sinks: list[str] = []
        ends = False
        todo = [root.pcollection] if isinstance(root, Stored) else list(root.transform.outputs.values())
        first = todo[0]
        seen: set[int] = set()
        while todo:
            pcollection = todo.pop()
            if pcollection in seen:
                continue
            seen.add(pcollection)
            if pcollection in self.side_inputs and not (isinstance(root, Stored) and pcollection == first):
                side_outputs.append(pcollection)
            consumers = self.plan.consumers(pcollection)
            ends = ends or not consumers and pcollection not in self.side_inputs
            for step in consumers:
                waits = isinstance(step, Stage) and step.side_inputs
                at_root = pcollection == first
                if isinstance(root, Stored) and at_root and not waits:
                    continue  # it runs in the segment that stores the PCollection
                alone = isinstance(root, Source) and len(consumers) == 1 and pcollection not in self.side_inputs
                if waits and not (at_root and (alone or isinstance(root, Stored))):
                    if pcollection not in stores:
                        stores.append(pcollection)
                    continue
                if step in steps:
                    continue
                steps.append(step)
                if isinstance(step, Stage):
                    if step.fold is not None:
                        groupings.append(step.fold.label)
                    else:
                        todo.extend(step.outputs.values())
                elif isinstance(step, Union):
                    todo.extend(step.transform.outputs.values())
                elif isinstance(step, Grouping):
                    groupings.append(step.transform.label)
                elif isinstance(step, Output):
                    sinks.append(step.transform.label)
        segment = Segment(
            root,
            tuple(steps),
            tuple(dict.fromkeys(groupings)),
            tuple(stores),
            tuple(side_outputs),
            tuple(sinks),
            ends,
        )
        self.segments.append(segment)
        for pcollection in stores:
            if pcollection not in self.stored:
                self.stored.add(pcollection)
                self.add(Stored(pcollection))


def _ordered(segments: list[Segment]) -> tuple[Segment, ...]:
    ordered: list[Segment] = []
    waiting = list(segments)
    while waiting:
        for segment in waiting:
            if not any(_before(other, segment) for other in waiting if other is not segment):
                break
        else:
            raise AssertionError("the plan has a cycle")
        waiting.remove(segment)
        ordered.append(segment)
    return tuple(ordered)


def _before(first: Segment, second: Segment) -> bool:
    """Whether the second needs what the first makes."""
    root = second.root
    if isinstance(root, Grouping) and root.transform.label in first.groupings:
        return True
    if isinstance(root, Stored) and root.pcollection in first.stores:
        return True
    return bool(second.side_inputs & set(first.side_outputs))
