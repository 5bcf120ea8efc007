"""The execution graph: the plan cut at its shuffles into tasks, and the edges between them (ABS, section 3.2).

A task is what one worker does between two shuffles, as several *subtasks* side by side, each
with a part of the keys or of the sources' partitions.  Every step has a level: how many
shuffles, or side inputs that have to travel, lie before it on the longest way.  Steps of one
level that hand elements to each other are one task; from level to level there are edges, so
that tasks and edges have no cycle but by back-edges, from a loop's end to its head.

>>> import penstock as beam
>>> from penstock.runners.execution.plan.fusion import fuse
>>> p = beam.Pipeline()
>>> _ = p | beam.Create(["a", "b"]) | beam.combiners.Count.PerElement() | beam.Map(print)
>>> first, second = cut(fuse(p.graph())).tasks
>>> [edge.kind.value for edge in second.inputs]
['shuffle']
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cached_property

import attrs

from .fusion import Back, Grouping, Head, Keyed, Plan, Source, Stage, Step


class EdgeKind(Enum):
    """Which subtasks of the next task an element goes to."""

    # The one that has its key.
    SHUFFLE = "shuffle"
    # The one with the same number.
    FORWARD = "forward"
    # All of them: it is a side input.
    BROADCAST = "broadcast"
    # The one with the same number, of a task that comes before: it is a loop.
    BACK = "back"


@attrs.frozen(eq=False)
class Edge:
    """A PCollection on its way from one task to a step of another.

    Attributes:
      id: its number.
      step: the step that takes it; None where it is a side input.
      producer, consumer: numbers of the tasks.
    """

    id: int
    pcollection: int
    kind: EdgeKind
    step: Step | None
    producer: int
    consumer: int


@attrs.frozen(eq=False, slots=False)
class Task:
    """Steps that run together.

    Attributes:
      id: its number; inputs come from tasks with lower ones.
      inputs, outputs: the edges that end and begin here.
    """

    id: int
    steps: tuple[Step, ...]
    inputs: tuple[Edge, ...] = ()
    outputs: tuple[Edge, ...] = ()

    @cached_property
    def label(self) -> str:
        """What to call it where people look."""
        return " → ".join(dict.fromkeys(label_of(step) for step in self.steps))

    @property
    def sources(self) -> list[Source]:
        """Its steps that read."""
        return [step for step in self.steps if isinstance(step, Source)]


@attrs.frozen(order=True)
class SubtaskId:
    """The number of a task, and of a subtask in it."""

    task: int
    index: int

    def __str__(self) -> str:
        return f"subtask {self.index} of task {self.task}"


@attrs.frozen(eq=False)
class ExecutionGraph:
    """Tasks, inputs first, of which each is run by so many subtasks."""

    plan: Plan
    tasks: tuple[Task, ...]
    parallelism: int = 1


def whole(plan: Plan) -> ExecutionGraph:
    """One task of all steps: for one subtask, in one process."""
    return ExecutionGraph(plan, (Task(0, plan.steps),))


def cut(plan: Plan, parallelism: int = 1, by_level: bool = False) -> ExecutionGraph:
    """The tasks of a plan, whose stages may not fold for a shuffle.

    `by_level` makes one task of all steps that have one level, whether or not they hand elements to
    each other: then an edge from one task leads to the next, or passes some by.
    """
    levels = _levels(plan)
    # One without steps, where there is nothing to do: somebody has to say that it is done.
    members = (_by_level(plan, levels) if by_level else _members(plan, levels)) or [[]]
    task_of = {step.id: number for number, steps in enumerate(members) for step in steps}
    producers = {i: step for step in plan.steps for i in outputs_of(step)}
    inputs: list[list[Edge]] = [[] for _ in members]
    outputs: list[list[Edge]] = [[] for _ in members]
    count = 0

    def connect(pcollection: int, step: Step | None, consumer: int, kind: EdgeKind) -> None:
        nonlocal count
        producer = task_of[producers[pcollection].id]
        if producer == consumer:
            return
        edge = Edge(count, pcollection, kind, step, producer, consumer)
        count += 1
        outputs[producer].append(edge)
        inputs[consumer].append(edge)

    for step in plan.steps:
        kind = EdgeKind.SHUFFLE if isinstance(step, (Grouping, Keyed)) else EdgeKind.FORWARD
        for pcollection in dict.fromkeys(inputs_of(step)):
            connect(pcollection, step, task_of[step.id], kind)
    for number, steps in enumerate(members):
        for pcollection in dict.fromkeys(i for step in steps for i in side_inputs_of(step)):
            connect(pcollection, None, number, EdgeKind.BROADCAST)
    heads = {step.transform.label: step for step in plan.steps if isinstance(step, Head)}
    for step in plan.steps:
        if isinstance(step, Back):
            head = heads[step.head]
            connect(step.transform.inputs[0], head, task_of[head.id], EdgeKind.BACK)
    tasks = tuple(Task(n, tuple(members[n]), tuple(inputs[n]), tuple(outputs[n])) for n in range(len(members)))
    return ExecutionGraph(plan, tasks, parallelism)


def _levels(plan: Plan) -> dict[str, int]:
    """Return the level of each step, by the step's id."""
    levels: dict[str, int] = {}
    of_pcollection: dict[int, int] = {}
    for step in plan.steps:
        # A loop's head has a task of its own, that barriers come to.
        shuffled = isinstance(step, (Grouping, Keyed, Head))
        before = [of_pcollection[i] + shuffled for i in inputs_of(step)]
        before += [of_pcollection[i] + 1 for i in side_inputs_of(step)]
        levels[step.id] = max(before, default=0)
        of_pcollection.update(dict.fromkeys(outputs_of(step), levels[step.id]))
    return levels


def _members(plan: Plan, levels: dict[str, int]) -> list[list[Step]]:
    """The steps of each task, in the order of their levels."""
    leaders = {step.id: step.id for step in plan.steps}

    def leader(step: str) -> str:
        while leaders[step] != step:
            # The way is halved for the next time.
            leaders[step] = leaders[leaders[step]]
            step = leaders[step]
        return step

    producers = {i: step for step in plan.steps for i in outputs_of(step)}
    for step in plan.steps:
        for pcollection in inputs_of(step):
            producer = producers[pcollection]
            if levels[producer.id] == levels[step.id]:
                leaders[leader(step.id)] = leader(producer.id)
    groups: dict[str, list[Step]] = {}
    for step in plan.steps:
        groups.setdefault(leader(step.id), []).append(step)
    return sorted(groups.values(), key=lambda steps: levels[steps[0].id])


def _by_level(plan: Plan, levels: dict[str, int]) -> list[list[Step]]:
    """The steps of each level.  No level is empty: what makes a step's is one below it."""
    members: dict[int, list[Step]] = {}
    for step in plan.steps:
        members.setdefault(levels[step.id], []).append(step)
    return [members[level] for level in sorted(members)]


def inputs_of(step: Step) -> tuple[int, ...]:
    """The PCollections that a step takes."""
    return (step.input,) if isinstance(step, Stage) else step.transform.inputs


def outputs_of(step: Step) -> tuple[int, ...]:
    """The PCollections that a step makes."""
    return tuple(step.outputs.values() if isinstance(step, Stage) else step.transform.outputs.values())


def side_inputs_of(step: Step) -> Iterable[int]:
    """The PCollections that it reads besides."""
    return [s.pcollection for s in step.side_inputs] if isinstance(step, (Stage, Keyed)) else ()


def label_of(step: Step) -> str:
    """What a step is called."""
    return step.label if isinstance(step, Stage) else step.transform.label
