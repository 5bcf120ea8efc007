"""In-flight records of a snapshot: the blocks that were in the channels to a task when the snapshot was taken.

An unaligned barrier finds most of them encoded already and leaves them so: no element or key is inspected to write
them.  A restored subtask selects the elements of its own key groups from the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from ....sdk.coders.key_encoding import KEY_GROUPS
from ....sdk.elements.bundle import Bundle
from ..operators.dataflow import Receiver
from ..plan.execution_graph import Edge, EdgeKind, inputs_of, label_of
from ..plan.fusion import Back, Grouping, Output, Plan
from ..serialization.unpickling import cant_be_read
from ..shuffle.blocks import decode_bundle, encode_bundle
from ..shuffle.partitioner import Partitioner
from ..windows.combining import FoldedBundle
from .snapshot import Restored, name_of
from .snapshot_chunks import FOLDED, IN_FLIGHT, IN_FLIGHT_BROADCAST, IN_FLIGHT_BY_KEY, LEFT, Chunk
from .task_program import TaskProgram


def in_flight_chunks(plan: Plan, edge: Edge, blocks: Sequence[bytes]) -> list[Chunk]:
    """Return the in-flight blocks of an edge, or of one of its channels, as chunks."""
    return [Chunk(*_label_and_kind(plan, edge), None, list(blocks))] if blocks else []


def by_key_group(plan: Plan, edge: Edge, bundles: Iterable[Bundle]) -> list[Chunk]:
    """Return in-flight bundles of an edge as chunks by key group, each for the group's owner alone."""
    label, kind = _label_and_kind(plan, edge)
    if edge.kind is not EdgeKind.SHUFFLE:
        return in_flight_chunks(plan, edge, [block for bundle in bundles for block in encode_bundle(bundle)])
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
        return name, IN_FLIGHT_BROADCAST
    kind = IN_FLIGHT_BY_KEY if edge.kind is EdgeKind.SHUFFLE else IN_FLIGHT
    return label_of(edge.step), f"{kind} from {name}"


def restored_in_front(execution: TaskProgram, restored: Restored) -> Iterator[tuple[Receiver, Bundle]]:
    """Yield what earlier versions of penstock left in front of a grouping or a sink in the middle of a bundle."""
    for step in reversed(execution.task.steps):
        if isinstance(step, (Grouping, Output)):
            receiver = execution.dataflow.entries[step.id, inputs_of(step)[0]]
            for bundle in restored.bundles(label_of(step), FOLDED):
                yield receiver, FoldedBundle(bundle.values, bundle.timestamps, bundle.windows)
            for bundle in restored.bundles(label_of(step), LEFT):
                yield receiver, bundle


def restored_on_edge(execution: TaskProgram, edge: Edge, restored: Restored) -> Iterator[Bundle]:
    """Return the in-flight bundles of an edge for the restored subtask."""
    return _bundles(restored, *_label_and_kind(execution.plan, edge))


def restored_within_task(execution: TaskProgram, restored: Restored) -> Iterator[tuple[Receiver, Bundle]]:
    """Yield the in-flight bundles of edges that are within this task now, as all are with one subtask."""
    arriving = {(edge.step.id, edge.pcollection) for edge in execution.task.inputs if edge.step is not None}
    # The last steps come first, because elements further downstream are earlier ones.
    for step in reversed(execution.task.steps):
        entries = [(label_of(step), pcollection) for pcollection in dict.fromkeys(inputs_of(step))]
        if isinstance(step, Back):
            entries.append((step.head, step.transform.inputs[0]))
        for label, pcollection in entries:
            if (step.id, pcollection) in arriving:
                continue
            name, receiver = name_of(execution.plan, pcollection), execution.dataflow.entries[step.id, pcollection]
            for kind in (IN_FLIGHT, IN_FLIGHT_BY_KEY):
                for bundle in _bundles(restored, label, f"{kind} from {name}"):
                    yield receiver, bundle
    for pcollection in sorted(execution.side_inputs - {edge.pcollection for edge in execution.task.inputs}):
        for bundle in _bundles(restored, name_of(execution.plan, pcollection), IN_FLIGHT_BROADCAST):
            yield partial(execution.views.add, pcollection), bundle


def _bundles(restored: Restored, label: str, kind: str) -> Iterator[Bundle]:
    """Yield the subtask's elements of the blocks of a kind, in the order in which they were sent."""
    is_cut = kind.startswith(IN_FLIGHT_BY_KEY) and restored.parallelism > 1
    partitioner = Partitioner(restored.parallelism, label) if is_cut else None
    for blocks in restored.newest(label, kind):
        for block in blocks:
            try:
                bundle = decode_bundle(block)
            except Exception as error:  # any error of a class, or of its import
                raise cant_be_read(f"{label}: an element {kind}", "the checkpoint", [], error) from error
            own = bundle if partitioner is None else partitioner.parts(bundle)[restored.index]
            if len(own):
                yield own
