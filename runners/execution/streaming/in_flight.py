"""What was on its way to a task when a snapshot was taken: blocks, as they travel from process to process.

A barrier that overtakes finds most of it encoded already, and leaves it so: nobody looks at an element, or at
its key, to write it down.  Whoever is restored takes what is of its own key groups out of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ....sdk.bundle import Bundle
from ....sdk.coders.key_encoding import KEY_GROUPS
from ..operators.dataflow import Receiver
from ..plan.execution_graph import Edge, EdgeKind, inputs_of, label_of
from ..plan.fusion import Back, Plan
from ..serialization.unpickling import cant_be_read
from ..shuffle.blocks import decode_bundle, encode_bundle
from ..shuffle.partitioner import Partitioner
from .snapshot import Restored, name_of
from .snapshot_chunks import BY_KEY, ON_ITS_WAY, TO_ALL, Chunk
from .task_execution import TaskExecution


def on_the_way(plan: Plan, edge: Edge, blocks: Sequence[bytes]) -> list[Chunk]:
    """What was on its way on an edge, or on one of its channels, as chunks."""
    return [Chunk(*_label_and_kind(plan, edge), None, list(blocks))] if blocks else []


def by_key_group(plan: Plan, edge: Edge, bundles: Iterable[Bundle]) -> list[Chunk]:
    """The same, for whoever has to give each key group to its owner alone."""
    label, kind = _label_and_kind(plan, edge)
    if edge.kind is not EdgeKind.SHUFFLE:
        return on_the_way(plan, edge, [block for bundle in bundles for block in encode_bundle(bundle)])
    partitioner = Partitioner(KEY_GROUPS, label)
    blocks: dict[int, list[bytes]] = {}
    for bundle in bundles:
        for group, part in enumerate(partitioner.parts(bundle)):
            if len(part):
                blocks.setdefault(group, []).extend(encode_bundle(part))
    return [Chunk(label, kind, group, own) for group, own in blocks.items()]


def _label_and_kind(plan: Plan, edge: Edge) -> tuple[str, str]:
    name = name_of(plan, edge.pcollection)
    if edge.step is None:
        return name, TO_ALL
    kind = BY_KEY if edge.kind is EdgeKind.SHUFFLE else ON_ITS_WAY
    return label_of(edge.step), f"{kind} from {name}"


def restored_on(execution: TaskExecution, edge: Edge, restored: Restored) -> Iterator[Bundle]:
    """What was on its way on an edge to the subtask that is restored."""
    return _bundles(restored, *_label_and_kind(execution.plan, edge))


def restored_within(execution: TaskExecution, restored: Restored) -> Iterator[tuple[Receiver, Bundle]]:
    """What was on its way on edges that are within this task now, as with one subtask they all are."""
    arriving = {(edge.step.id, edge.pcollection) for edge in execution.task.inputs if edge.step is not None}
    # The last steps first: what is further on came earlier.
    for step in reversed(execution.task.steps):
        entries = [(label_of(step), pcollection) for pcollection in dict.fromkeys(inputs_of(step))]
        if isinstance(step, Back):
            entries.append((step.head, step.transform.inputs[0]))
        for label, pcollection in entries:
            if (step.id, pcollection) in arriving:
                continue
            name, receiver = name_of(execution.plan, pcollection), execution.dataflow.entries[step.id, pcollection]
            for kind in (ON_ITS_WAY, BY_KEY):
                for bundle in _bundles(restored, label, f"{kind} from {name}"):
                    yield receiver, bundle
    for pcollection in sorted(execution.side_inputs - {edge.pcollection for edge in execution.task.inputs}):
        for bundle in _bundles(restored, name_of(execution.plan, pcollection), TO_ALL):
            yield partial(execution.views.add, pcollection), bundle


def _bundles(restored: Restored, label: str, kind: str) -> Iterator[Bundle]:
    """What the subtask has to do with of the blocks of a kind, in the order in which they were sent."""
    is_cut = kind.startswith(BY_KEY) and restored.parallelism > 1
    partitioner = Partitioner(restored.parallelism, label) if is_cut else None
    for blocks in restored.newest(label, kind):
        for block in blocks:
            try:
                bundle = decode_bundle(block)
            except Exception as error:  # whatever a class raises, or importing it
                raise cant_be_read(f"{label}: an element {kind}", "the checkpoint", [], error) from error
            own = bundle if partitioner is None else partitioner.parts(bundle)[restored.index]
            if len(own):
                yield own
