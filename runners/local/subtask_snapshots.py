"""Snapshots of one subtask: its state, where its sources stand, and what its sinks have staged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..execution.streaming.restored import shown_positions
from ..execution.streaming.snapshot import snapshot, weight
from ..execution.streaming.snapshot_chunks import POSITIONS, SCRIPT, Chunk, labels_of, records_of
from ..execution.streaming.task_execution import TaskExecution
from .injector import Injector
from .messages import Barrier
from .numbering import NUMBERS, ORIGIN, Numbering, Numbers
from .script_injector import ScriptInjector
from .subtask_reports import Snapshot, SubtaskId
from .tally import Tally, sum_of


class SubtaskSnapshots:
    """Takes a subtask's snapshots, and remembers what is to be done when they are durable.

    Args:
      transaction: what its sinks write to at first.
      numbering: of what is sent, if it is numbered.

    Attributes:
      large: how many entries make a snapshot that is left uncopied, for a child; None if there are no children.
      staged: by sink label, what was staged and isn't known to be committed: pairs of a transaction and a token.
    """

    def __init__(
        self,
        execution: TaskExecution,
        id: SubtaskId,
        parallelism: int,
        injectors: Sequence[Injector],
        scripts: Sequence[ScriptInjector],
        tally: Tally,
        transaction: str,
        numbering: Numbering | None = None,
    ) -> None:
        self._execution = execution
        self._id = id
        self._parallelism = parallelism
        self._numbering = numbering
        self._injectors = injectors
        self._scripts = scripts
        self._tally = tally
        self._transaction = transaction
        self.large: int | None = None
        self._taken: list[tuple[int, dict[str, list[Any]]]] = []
        self.staged: dict[str, list[tuple[str, Any]]] = {output.label: [] for output in execution.outputs}

    def take(self, barrier: Barrier, is_joined: bool) -> Snapshot:
        """Stage what the sinks have, and take a snapshot; `is_joined` if what is in flight will join its records."""
        for output in self._execution.outputs:
            output.stage()
            tokens, output.staged = output.staged, []
            self.staged[output.label] += [(self._transaction, token) for token in tokens]
            if barrier.transaction:
                output.next(barrier.transaction)
            else:
                # Behind the last barrier watermarks may still move, and windows close.
                output.end()
        self._transaction = barrier.transaction
        staged = {label: list(tokens) for label, tokens in self.staged.items() if tokens}
        now = self._execution.clock.now
        copied = Snapshot(barrier.epoch, (), (), staged, barrier.is_whole, sum_of([self._tally]), now)
        if self.large is not None and not is_joined and weight(self._execution, barrier.is_whole) >= self.large:
            positions = self._positions()
            self._taken.append((barrier.epoch, positions))
            return copied._replace(uncopied=lambda: self.chunks(barrier.is_whole)[0], offsets=_shown(positions))
        chunks, positions = self.chunks(barrier.is_whole)
        self._taken.append((barrier.epoch, positions))
        return copied._replace(records=records_of(chunks), labels=labels_of(chunks), offsets=_shown(positions))

    def chunks(self, is_whole: bool) -> tuple[list[Chunk], dict[str, list[Any]]]:
        """All that has to be remembered, or what has changed of it; and where the sources stand, by label."""
        chunks = snapshot(self._execution, is_whole)
        positions = self._positions()
        chunks += [Chunk(label, POSITIONS, None, own) for label, own in positions.items()]
        if self._numbering is not None:
            chunks += [Chunk(label, NUMBERS, None, self._numbers(self._numbering, label)) for label in positions]
            if self._execution.is_behind and self._numbering.origin is not None:
                label, partition = self._numbering.origin
                chunks.append(Chunk(label, ORIGIN, None, (self._id.index, self._parallelism, partition)))
        chunks += [Chunk(script.label, SCRIPT, None, script.position) for script in self._scripts if script.is_player]
        return chunks, positions

    def _numbers(self, numbering: Numbering, label: str) -> tuple[int, int, Numbers]:
        return self._id.index, self._parallelism, numbering.kept(label)

    def offsets(self) -> dict[str, list[tuple[str, str]]]:
        """By source label, its partitions and where they stand, as text."""
        return _shown(self._positions())

    def _positions(self) -> dict[str, list[Any]]:
        return {injector.label: injector.positions() for injector in self._injectors}

    def committed(self, epoch: int, transactions: Mapping[str, Any] | Sequence[str]) -> None:
        """A checkpoint is durable, and these transactions of the sinks are committed."""
        done = set(transactions)
        for label, tokens in self.staged.items():
            self.staged[label] = [(transaction, token) for transaction, token in tokens if transaction not in done]
        for number, positions in self._taken:
            if number == epoch:
                for injector in self._injectors:
                    injector.acknowledge(positions[injector.label])
        self._taken = [entry for entry in self._taken if entry[0] > epoch]


def _shown(positions: Mapping[str, list[Any]]) -> dict[str, list[tuple[str, str]]]:
    return {
        label: shown_positions((each.partition, each.offset, each.is_finished) for each in own)
        for label, own in positions.items()
    }
