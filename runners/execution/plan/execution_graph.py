"""The execution graph: the plan cut at its shuffles into tasks, and the edges between them (ABS, section 3.2).

A task is the work between two shuffles.  It runs as several *subtasks* side by side, each with a part of the keys or of
the sources' partitions.  Every step has a level: the number of shuffles, or side inputs that have to travel, before it
on the longest path.  Steps of one level that pass elements to each other are one task; edges lead from level to level.
So tasks and edges have no cycle except by back-edges, from a loop's end to its head.

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

from ....frozen import frozen
from .fusion import Back, Grouping, Head, Keyed, Plan, Source, Stage, Step


class EdgeKind(Enum):
    """The subtasks of the next task that receive an element."""

    # The subtask that owns the element's key.
    SHUFFLE = "shuffle"
    # The subtask with the same number.
    FORWARD = "forward"
    # All subtasks: the element belongs to a side input.
    BROADCAST = "broadcast"
    # The subtask with the same number of a task upstream: the edge closes a loop.
    BACK = "back"


@frozen(eq=False)
class Edge:
    """A PCollection that one task sends to a step of another.

    Attributes:
      id: its number.
      step: the step that receives it; None where it is a side input.
      producer, consumer: numbers of the tasks.
    """

    id: int
    pcollection: int
    kind: EdgeKind
    step: Step | None
    producer: int
    consumer: int


@frozen(eq=False, slots=False)
class Task:
    """Steps that run together.

    Attributes:
      id: its number; inputs come from tasks with lower numbers.
      inputs, outputs: the edges that end and begin here.
    """

    id: int
    steps: tuple[Step, ...]
    inputs: tuple[Edge, ...] = ()
    outputs: tuple[Edge, ...] = ()

    @cached_property
    def label(self) -> str:
        """Return its name in logs, metrics and errors."""
        return " → ".join(dict.fromkeys(label_of(step) for step in self.steps))

    @property
    def sources(self) -> list[Source]:
        """Return its sources."""
        return [step for step in self.steps if isinstance(step, Source)]


@attrs.frozen(order=True)
class SubtaskId:
    """The number of a task, and of a subtask in it."""

    task: int
    index: int

    def __str__(self) -> str:
        return f"subtask {self.index} of task {self.task}"


@frozen(eq=False)
class ExecutionGraph:
    """Tasks, inputs first, each run by `parallelism` subtasks."""

    plan: Plan
    tasks: tuple[Task, ...]
    parallelism: int = 1


def whole(plan: Plan) -> ExecutionGraph:
    """Return one task of all steps, for one subtask in one process."""
    return ExecutionGraph(plan, (Task(0, plan.steps),))


def cut(plan: Plan, parallelism: int = 1, by_level: bool = False) -> ExecutionGraph:
    """Return the tasks of a plan, whose stages may not fold for a shuffle.

    `by_level` makes one task of all steps of a level, whether or not they pass elements to each other.  Then an edge
    may skip tasks.
    """
    levels = _levels(plan)
    # A plan without steps gets a task without steps, which reports that it has finished.
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
        # The head of a loop has a task of its own, where barriers align.
        shuffled = isinstance(step, (Grouping, Keyed, Head))
        before = [of_pcollection[i] + shuffled for i in inputs_of(step)]
        before += [of_pcollection[i] + 1 for i in side_inputs_of(step)]
        levels[step.id] = max(before, default=0)
        of_pcollection.update(dict.fromkeys(outputs_of(step), levels[step.id]))
    return levels


def _members(plan: Plan, levels: dict[str, int]) -> list[list[Step]]:
    """Return the steps of each task, in the order of their levels."""
    leaders = {step.id: step.id for step in plan.steps}

    def leader(step: str) -> str:
        while leaders[step] != step:
            # Path halving makes the next search shorter.
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
    """Return the steps of each level.

    No level is empty: the producer of a step's input is at most one level below it.
    """
    members: dict[int, list[Step]] = {}
    for step in plan.steps:
        members.setdefault(levels[step.id], []).append(step)
    return [members[level] for level in sorted(members)]


def inputs_of(step: Step) -> tuple[int, ...]:
    """Return the main inputs of a step."""
    return (step.input,) if isinstance(step, Stage) else step.transform.inputs


def outputs_of(step: Step) -> tuple[int, ...]:
    """Return the outputs of a step."""
    return tuple(step.outputs.values() if isinstance(step, Stage) else step.transform.outputs.values())


def side_inputs_of(step: Step) -> Iterable[int]:
    """Return the side inputs of a step."""
    return [s.pcollection for s in step.side_inputs] if isinstance(step, (Stage, Keyed)) else ()


def label_of(step: Step) -> str:
    """Return the name of a step in logs, metrics and errors."""
    return step.label if isinstance(step, Stage) else step.transform.label
