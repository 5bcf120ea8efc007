"""The sinks of a run of micro-batches, and their transactions: prepared, published, or given up, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import cloudpickle

from ...sdk import graph
from ...sdk.sink import Sink
from ..execution.fusion import Output, Plan
from ..execution.user_code import guarded


class SinkTransactions:
    """All sinks of a plan, which always have the same transaction.

    Attributes:
      prepared: the one that is under way, if one is.
    """

    def __init__(self, plan: Plan) -> None:
        self._sinks = dict(_sink_of(step) for step in plan.steps if isinstance(step, Output))
        self.prepared: str | None = None

    def prepare(self, transaction: str) -> None:
        """Begin it; one that is under way goes on."""
        if self.prepared is None:
            self.prepared = transaction
            for label, sink in self._sinks.items():
                guarded(label, partial(sink.prepare, transaction))

    def commit(self, transaction: str, staged: Mapping[str, Sequence[bytes]]) -> None:
        """Publish what was staged, by label and pickled; once more does nothing more."""
        for label, sink in self._sinks.items():
            tokens = [cloudpickle.loads(token) for token in staged.get(label, ())]
            guarded(label, partial(sink.commit, transaction, tokens))
        self.prepared = None

    def abort(self, transaction: str | None) -> None:
        """Remove what was staged in it, as far as that can be."""
        if transaction is None:
            return
        for sink in self._sinks.values():
            with suppress(Exception):
                sink.abort(transaction)


def _sink_of(step: Output) -> tuple[str, Sink[Any]]:
    primitive = step.transform.primitive
    assert isinstance(primitive, graph.ParDo)
    assert primitive.sink is not None
    return step.transform.label, primitive.sink
