"""Dead letters of a sink, and errors of a commit that name the way out.

A manifest that is written decides that its transactions commit, so every start tries again.  A commit that fails for
what is in a record fails each time.  Two things end that: `--on_commit_error=dead_letter`, with which the sink moves
the record aside, and `penstock checkpoints rollback DIR`, which goes back to the checkpoint before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs

from ...sdk.errors import RejectedRecordError
from ...sdk.graph import Graph, ParDo, Transform
from ...sdk.options import PipelineOptions, SinkOptions
from ...sdk.redaction import redacted
from ...sdk.sink import Sink
from .user_code import guarded

_logger = logging.getLogger(__name__)

DEAD_LETTERS = "start it with --on_commit_error=dead_letter, which publishes all records except the refused ones"


def with_dead_letters(graph: Graph, options: PipelineOptions) -> Graph:
    """The graph with sinks that move refused records aside, where `--on_commit_error=dead_letter` says so."""
    if options.view_as(SinkOptions).on_commit_error != "dead_letter":
        return graph

    def moving(transform: Transform) -> Transform:
        primitive = transform.primitive
        if not isinstance(primitive, ParDo) or primitive.sink is None:
            return transform
        sink = primitive.sink.with_dead_letters()
        if sink is None:
            _logger.warning(
                "%s: --on_commit_error=dead_letter: its sink has no place for dead letters, so an error of its commit "
                "still fails the run",
                transform.label,
            )
            return transform
        return attrs.evolve(transform, primitive=attrs.evolve(primitive, sink=sink))

    return attrs.evolve(graph, transforms=tuple(map(moving, graph.transforms)))


def by_transaction(tokens: Sequence[tuple[str, Any]], order: Sequence[str]) -> dict[str, list[Any]]:
    """Pairs of a transaction and a token as tokens by transaction, in this order."""
    found: dict[str, list[Any]] = {transaction: [] for transaction in order}
    for transaction, token in tokens:
        found.setdefault(transaction, []).append(token)
    return found


def explain(error: BaseException, before: str, behind: str) -> None:
    """Put text around the message of an error, which stays the error that it is."""
    if error.args and isinstance(error.args[0], str):
        error.args = (f"{redacted(before)}{error.args[0]}. {redacted(behind)}", *error.args[1:])


@contextmanager
def precommitting(what: str, then: str) -> Iterator[None]:
    """Add the consequence and the possible remedies to the error of a refused record.

    Args:
      what: such as "checkpoint 7 is not written".
      then: what the user can do with a fixed pipeline.
    """
    try:
        yield
    except RejectedRecordError as error:
        explain(error, f"{what}, since it couldn't be published: ", f"{then}; or {DEAD_LETTERS}")
        raise


def precommit(label: str, sink: Sink[Any], transactions: Mapping[str, Sequence[Any]]) -> None:
    """Precommit a sink, where anything is staged for it; errors name it by its label."""
    if any(transactions.values()):
        guarded(label, partial(sink.precommit, transactions))
