"""Identities of sources: detect that a source has changed since a checkpoint, so that no offset is misread.

A checkpoint has the identity of each source by label (`UnboundedSource.identity`), as JSON.

>>> before = {"Numbers": {"class": "SequenceSource", "partitions": 1}}
>>> now = {"Numbers": {"class": "SequenceSource", "partitions": 2}}
>>> [str(each) for each in changes_of_sources(before, now)]
["'Numbers': partitions (then: 1; now: 2)"]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ....frozen import frozen
from ....sdk import graph
from ....sdk.redaction import redacted
from ....sdk.sources.bounded import BoundedSource
from ....sdk.sources.scripted_source import Script
from ....sdk.sources.unbounded import UnboundedSource
from ..user_errors import guarded
from .fusion import Plan, Source

# By a source's label, the parameters that the meaning of its offsets depends on.
Identities: TypeAlias = Mapping[str, Mapping[str, Any]]

# The name, in an identity, of the source's class.
CLASS = "class"

# The advice in errors about a changed source.
ADVICE = (
    "Restore the parameters of the sources; or give --allow_dropped_state to read them from their beginning; or, if "
    "the same input has another name or address now, --allow_changed_sources to resume from those positions"
)


class PartitionPosition(NamedTuple):
    """The offset of a partition, and its watermark in microseconds."""

    partition: Any
    offset: Any
    watermark: int
    is_finished: bool


@frozen
class SourceChange:
    """A source that has changed.

    Attributes:
      label: the source's.
      values: by name, the former value and the present one.
      rescalable: the names whose values may change.
    """

    label: str
    values: Mapping[str, tuple[Any, Any]]
    rescalable: frozenset[str] = frozenset()

    @property
    def is_rescalable(self) -> bool:
        """Return True if the source can resume from its offsets all the same."""
        return self.values.keys() <= self.rescalable

    def __str__(self) -> str:
        changed = (f"{name} (then: {_shown(was)}; now: {_shown(now)})" for name, (was, now) in self.values.items())
        return f"{self.label!r}: {', '.join(changed)}"


def sources_of(plan: Plan) -> dict[str, Any]:
    """Return the sources of a pipeline by label."""
    return {
        step.transform.label: step.transform.primitive.source
        for step in plan.steps
        if isinstance(step, Source) and isinstance(step.transform.primitive, graph.Read)
    }


def identities_of(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the identities of a pipeline's sources, as JSON gives them back."""
    return {label: identity_of(label, source) for label, source in sources_of(plan).items()}


def identity_of(label: str, source: BoundedSource[Any] | UnboundedSource[Any] | Script) -> dict[str, Any]:
    """Return the identity of one source."""
    identity = {CLASS: type(source).__qualname__, **guarded(label, source.identity)}
    # Values that JSON doesn't have are compared as text.
    as_data: dict[str, Any] = json.loads(json.dumps(identity, default=str))
    return {name: _without_secrets(value) for name, value in as_data.items()}


def changes_of_sources(
    before: Identities, now: Identities, sources: Mapping[str, Any] | None = None
) -> list[SourceChange]:
    """Return the changes of the sources that exist before and now, by label."""
    changes = []
    for label, was in before.items():
        if label not in now or was == now[label]:
            continue
        is_now = now[label]
        names = [name for name in (*was, *(is_now.keys() - was.keys())) if was.get(name) != is_now.get(name)]
        # The other parameters of another class of source mean nothing.
        names = [CLASS] if CLASS in names else names
        values = {name: (was.get(name), is_now.get(name)) for name in names}
        source = None if sources is None else sources[label]
        may_change: Set[str] = frozenset()
        if isinstance(source, UnboundedSource) and CLASS not in names:
            may_change = guarded(label, partial(source.rescalable_from, was))
        changes.append(SourceChange(label, values, frozenset(may_change & set(names))))
    return changes


def rescaled(
    label: str, source: UnboundedSource[Any], before: Mapping[str, Any], positions: Sequence[PartitionPosition]
) -> list[PartitionPosition]:
    """Return the positions that a source resumes from, if its identity was `before` at the checkpoint."""
    changes = changes_of_sources({label: before}, {label: identity_of(label, source)}, {label: source})
    if not any(change.rescalable for change in changes) or all(position.is_finished for position in positions):
        return list(positions)
    offsets = {position.partition: position.offset for position in positions}
    found = guarded(label, lambda: source.rescale(before, offsets))
    if found is offsets:
        return list(positions)
    # Each partition may now have a part of any former one.
    watermark = min(position.watermark for position in positions if not position.is_finished)
    return [PartitionPosition(partition, offset, watermark, False) for partition, offset in found.items()]


def described(changes: Iterable[SourceChange]) -> str:
    """Return the changes as text."""
    return "; ".join(map(str, changes))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(part) for part in value]
    return redacted(value) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
