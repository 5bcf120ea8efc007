"""A sink's writer in one worker: opened at its first bundle, staged at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from ....sdk import graph
from ....sdk.elements.bundle import Bundle
from ....sdk.sink import SinkWriter
from ..counters import Counts
from ..user_errors import guarded
from .committer import precommit


class OutputRun:
    """One worker's part of a sink; `SinkCommitter` is the part of the process that runs the pipeline.

    Attributes:
      label: the sink's full label.
      staged: the tokens of staged output.
    """

    def __init__(
        self,
        transform: graph.Transform,
        transaction: str,
        counts: Counts,
        unit: str = "0",
    ) -> None:
        primitive = transform.primitive
        assert isinstance(primitive, graph.ParDo)
        assert primitive.sink is not None
        self.label = transform.label
        self.staged: list[Any] = []
        self._sink = primitive.sink
        self._context = self._sink.context(transaction)
        self._unit = unit
        self._writers = 0
        self._count = counts.of(self.label)
        self._writer: SinkWriter[Any] | None = None
        self._is_over = False

    def receive(self, bundle: Bundle) -> None:
        """Write a bundle."""
        if self._is_over:
            return
        self._count.read += len(bundle)
        guarded(self.label, lambda: self._write(bundle))
        self._count.written += len(bundle)

    def _write(self, bundle: Bundle) -> None:
        if self._writer is None:
            # Another writer may follow in the same transaction.
            self._writers += 1
            context = attrs.evolve(self._context, unit=f"{self._unit}-{self._writers}")
            self._writer = self._sink.sink.open_writer(context)
        self._writer.write(bundle)

    def stage(self) -> None:
        """Stage the output written so far."""
        if self._writer is not None:
            self.staged.append(guarded(self.label, self._writer.stage))
            self._writer = None

    @property
    def has_written(self) -> bool:
        """Return True if there is unstaged output."""
        return self._writer is not None

    def next(self, transaction: str) -> None:
        """Write in another transaction from now on."""
        assert self._writer is None
        self._context = attrs.evolve(self._context, transaction=transaction)

    def end(self) -> None:
        """Ignore elements from now on: they are in no snapshot, and the next start reads their input again."""
        assert self._writer is None
        self._is_over = True

    def discard(self) -> None:
        """Remove the unstaged output: this worker has failed."""
        if self._writer is not None:
            with suppress(Exception):
                self._writer.discard()
            self._writer = None

    def precommit(self, transactions: Mapping[str, Sequence[Any]]) -> None:
        """Check that staged output can be published.

        Args:
          transactions: tokens by transaction, in the order of their commits.
        """
        precommit(self.label, self._sink, transactions)
