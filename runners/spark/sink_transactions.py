"""The sinks of a run of micro-batches, and their transactions: prepared, published, or given up, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import cloudpickle

from ...sdk import graph
from ...sdk.sink import Sink
from ..execution.commit_errors import precommit
from ..execution.fusion import Output, Plan
from ..execution.user_code import guarded


class SinkTransactions:
    """All sinks of a plan, which always have the same transaction.

    Attributes:
      prepared: the one that is under way, if one is.
      failed: the label of the sink whose last commit has failed, and those of the sinks that had published before.
    """

    def __init__(self, plan: Plan) -> None:
        self._sinks = dict(_sink_of(step) for step in plan.steps if isinstance(step, Output))
        self.prepared: str | None = None
        self.failed: tuple[str, tuple[str, ...]] | None = None

    def prepare(self, transaction: str) -> None:
        """Begin it; one that is under way goes on."""
        if self.prepared is None:
            self.prepared = transaction
            for label, sink in self._sinks.items():
                guarded(label, partial(sink.prepare, transaction))

    def precommit(self, transaction: str, staged: Mapping[str, Sequence[bytes]]) -> None:
        """Check that the staged output can be published."""
        for label, sink in self._sinks.items():
            precommit(label, sink, {transaction: _tokens(staged, label)})

    def commit(self, transaction: str, staged: Mapping[str, Sequence[bytes]]) -> None:
        """Publish what was staged, by label and pickled; once more does nothing more."""
        published: list[str] = []
        for label, sink in self._sinks.items():
            try:
                guarded(label, partial(sink.commit, transaction, _tokens(staged, label)))
            except Exception:
                self.failed = label, tuple(published)
                raise
            if staged.get(label):
                published.append(label)
        self.failed = None
        self.prepared = None

    def abort(self, transaction: str | None) -> None:
        """Remove what was staged in it, as far as that can be."""
        if transaction is None:
            return
        for sink in self._sinks.values():
            with suppress(Exception):
                sink.abort(transaction)


def _tokens(staged: Mapping[str, Sequence[bytes]], label: str) -> list[Any]:
    return [cloudpickle.loads(token) for token in staged.get(label, ())]


def _sink_of(step: Output) -> tuple[str, Sink[Any]]:
    primitive = step.transform.primitive
    assert isinstance(primitive, graph.ParDo)
    assert primitive.sink is not None
    return step.transform.label, primitive.sink
